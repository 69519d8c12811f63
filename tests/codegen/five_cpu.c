/* five_cpu.c: the printed C of five.c as a table, for emulated_test.cpp. SPDX-License-Identifier: MIT */
#include "five_kernels.inc"

extern tn_cpu_kernel *const five_cpu[];
tn_cpu_kernel *const five_cpu[] = {lltm_k1_cell_call,  gpt_k2_xent_call,    gpt_k3_layernorm_bwd_call,
                                   gpt_k4_colsum_call, stats_k5_row_call,   opt_k6_scalars_call,
                                   mix_k7_map_call};
