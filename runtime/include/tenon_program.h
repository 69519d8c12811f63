/* tenon_program.h: the const tables that compiled models are made of; the executor reads them.
 * Not for hand-written code: `tenon -S` prints them. Structs start with their size where they may
 * grow. SPDX-License-Identifier: MIT */
#ifndef TENON_PROGRAM_H
#define TENON_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_ABI 4

/* Sizes: postfix code, one word an operation; CONST, SYM and DIM are followed by one word. Division
 * floors. A size is the code from its start to TN_D_END. */
enum { TN_D_END, TN_D_CONST, TN_D_SYM, TN_D_DIM, TN_D_ADD, TN_D_SUB, TN_D_MUL, TN_D_DIV, TN_D_MIN,
       TN_D_MAX };

typedef struct {
    const char *name;
    int64_t lo, hi, div, rem; /* lo <= value <= hi, value % div == rem */
    int32_t fixed;            /* 1: value is lo (given by -D); 2: counts the turns of a loop */
} tn_symbol;

enum { TN_G_EQ, TN_G_NE, TN_G_LT, TN_G_LE, TN_G_DIVISIBLE, TN_G_ARCH, TN_G_HAS, TN_G_WANT, TN_G_CHOICE };
/* a, b: numbers of sizes; k: divisor, architecture (80: sm_80 or later), library or result; -k: an
 * older architecture, no such library. CHOICE: alternative k % 256 of choice k / 256 (tune.c) */
enum { TN_HAS_BLAS = 1 };
typedef struct {
    int32_t kind, a, b;
    int64_t k;
} tn_guard;
typedef struct {
    int32_t first, n; /* guards[first .. first+n-1] must all hold; n 0: always */
} tn_when;

typedef struct {
    tn_guard guard;
    const char *message, *where; /* where: "lltm.tn:12" */
} tn_check;

enum { TN_BUF_NONE, TN_BUF_ARG, TN_BUF_RESULT, TN_BUF_STATE, TN_BUF_TAPE, TN_BUF_TEMP, TN_BUF_CONST };
typedef struct {
    const char *name;
    int8_t kind, dtype; /* dtype: order of runtime/dtype.h, from 1 */
    int8_t rank;
    int32_t shape;      /* dims[shape .. shape+rank-1] are numbers of sizes */
    int32_t index;      /* ARG, RESULT: position; STATE: slot; TAPE: number */
    int32_t of, offset; /* of != 0: a piece of that buffer, offset: number of a size (elements) */
    int32_t first, last; /* TEMP: steps between which it is alive; first > last: never */
    const void *data;   /* CONST */
    int32_t strip;      /* TEMP, != 0: no memory but in strip number `strip` - 1 */
    int32_t place;      /* number of its device in tn_model_desc.places */
} tn_buffer;

/* A kernel for the CPU: cells lo .. hi-1. p: pointers in parameter order, then int32_t error[4] where
 * it has checks: 0 fine, else number of the check from 1; index; size of the axis. n: sizes. */
typedef void tn_cpu_kernel(void *const *p, const int64_t *n, int64_t lo, int64_t hi);

/* A kernel's text is compiled once small, for every processor of the kind, and where it pays again for
 * x86-64-v3 (AVX2 and FMA: `fast`) and x86-64-v4 (AVX-512: `widest`); define TN_ONE_TARGET for once, for
 * what -march says. The bits are the same. TN_CALL(NAME, arguments) makes NAME's functions and
 * TN_CPU(NAME) names them in a tn_kernel; TN_CALL_WIDE and TN_CPU_WIDE are for kernels that compute
 * more than they load, TN_CALL_ONCE for those that run rarely or do little. */
#if defined __clang__
#define TN_KERNEL static inline __attribute__((always_inline)) void
#define TN_INLINE static inline __attribute__((always_inline))
#define TN_FLAT
#elif defined __GNUC__ /* what a kernel calls must be compiled for its processor, too */
#define TN_KERNEL static inline __attribute__((always_inline)) void
#define TN_INLINE static inline __attribute__((noclone)) /* gcc flattens no clones with constants */
#define TN_FLAT __attribute__((flatten))
#else
#define TN_KERNEL static inline void
#define TN_INLINE static inline
#define TN_FLAT
#endif
/* Memory that will be read or written soon. */
#if defined __GNUC__
#define TN_AHEAD(address)       __builtin_prefetch(address)
#define TN_AHEAD_STORE(address) __builtin_prefetch(address, 1)
#else
#define TN_AHEAD(address)       ((void)0)
#define TN_AHEAD_STORE(address) ((void)0)
#endif
#define TN_CALL_AS(attribute, function, name, ...)                                                 \
    attribute static void function(void *const *p, const int64_t *n, int64_t lo, int64_t hi)      \
    {                                                                                              \
        (void)p;                                                                                   \
        (void)n;                                                                                   \
        (void)lo;                                                                                  \
        (void)hi;                                                                                  \
        name(__VA_ARGS__);                                                                         \
    }
#if defined __GNUC__
#define TN_SMALL __attribute__((cold))
#else
#define TN_SMALL
#endif
#define TN_CALL_ONCE(name, ...) TN_CALL_AS(TN_SMALL, name##_call, name, __VA_ARGS__)
#if defined __x86_64__ && defined __GNUC__ && !defined TN_ONE_TARGET
#define TN_FAST TN_FLAT __attribute__((target("avx2,fma,bmi,bmi2")))
#define TN_AVX512 "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2"
#if defined __clang__
#define TN_WIDE __attribute__((target(TN_AVX512), min_vector_width(512)))
#else
#define TN_WIDE TN_FLAT __attribute__((target(TN_AVX512 ",prefer-vector-width=512")))
#endif
#define TN_CALL(name, ...)                                                                         \
    TN_CALL_AS(TN_SMALL, name##_call, name, __VA_ARGS__)                                           \
    TN_CALL_AS(TN_FAST, name##_fast, name, __VA_ARGS__)
#define TN_CALL_WIDE(name, ...)                                                                    \
    TN_CALL(name, __VA_ARGS__)                                                                     \
    TN_CALL_AS(TN_WIDE, name##_wide, name, __VA_ARGS__)
#define TN_CPU(name)      .cpu = name##_call, .fast = name##_fast
#define TN_CPU_WIDE(name) TN_CPU(name), .widest = name##_wide
#else
#define TN_CALL(name, ...)      TN_CALL_AS(TN_FLAT, name##_call, name, __VA_ARGS__)
#define TN_CALL_WIDE(name, ...) TN_CALL(name, __VA_ARGS__)
#define TN_CPU(name)            .cpu = name##_call
#define TN_CPU_WIDE(name)       TN_CPU(name)
#endif

/* What the code of all kernels together needs of a processor. */
#if !defined TN_ONE_TARGET || !defined __x86_64__
#define TN_LEVEL 1
#elif defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512DQ__ && defined __AVX512VL__
#define TN_LEVEL 4
#elif defined __AVX2__ && defined __FMA__ && defined __BMI2__
#define TN_LEVEL 3
#else
#define TN_LEVEL 1
#endif

typedef struct {
    const char *name, *where; /* where: "lltm.tn:9-12" */
    tn_cpu_kernel *cpu;       /* NULL when the CPU is not among the targets */
    int32_t nparams, nsizes;
    int16_t lanes, teams;     /* CUDA: block. Parameters: the pointers, the sizes (see `wide`), then
                                 int32_t error[4] where it has checks */
    int8_t grid_lanes;        /* 1: one cell a lane */
    int8_t cost;              /* about log2 of nanoseconds a cell: decides about threads */
    int16_t nchecks;
    const char *const *checks; /* where each check comes from: "lltm.tn:12"; NULL without */
    int32_t block_cells;      /* CUDA: cells a block works on: the grid is ceil(cells / this) */
    tn_cpu_kernel *fast;      /* the same for processors with AVX2, FMA and BMI2; or NULL */
    uint64_t wide;            /* CUDA: bit i: size i is a long long, not an int */
    tn_cpu_kernel *widest;    /* the same for processors with AVX-512 F, BW, DQ and VL; or NULL */
    uint64_t writes;          /* bit i: it writes at parameter i, or the 64th and later ones: bit 63 */
    int32_t counters;         /* CUDA: unsigned numbers that a launch finds and leaves 0: the last parameter */
} tn_kernel;

/* LOOP: the steps up to END run `cells` times, with symbol `kernel` counting from 0, or down to 0;
 * what sizes mention it is computed anew each turn. With `rows`, row r of all that it writes is made
 * of row r of that: products have them as m, launches some cells to each, and blocks of rows may go
 * through all turns by themselves. SWAP: two buffers change places. */
enum { TN_STEP_LAUNCH, TN_STEP_GEMM, TN_STEP_COPY, TN_STEP_FILL, TN_STEP_PRINT, TN_STEP_LOOP, TN_STEP_END,
       TN_STEP_SWAP };
typedef struct {
    int32_t buf, offset, rows, cols, batch0, batch1; /* buf 0: absent; the rest: numbers of sizes */
} tn_gemm_operand;
typedef struct {
    int32_t m, n, k, batch0, batch1;
    tn_gemm_operand a, b, c, sum_a, sum_b;
    int32_t accumulate;
    int32_t tf32; /* f32 on GPUs: 10 bits of each factor are enough */
    tn_gemm_operand bias; /* GPUs: c = a b + bias[n]; neither batches nor sums, not accumulated */
} tn_gemm_step;
typedef struct {
    int32_t buf, offset;
} tn_operand;
typedef struct {
    int8_t kind;
    int32_t kernel;            /* LAUNCH: kernels[kernel]; GEMM: gemms[kernel]; LOOP: symbols[kernel] */
    int32_t operands, nops;    /* LAUNCH: operands[operands ..]; COPY, SWAP: dst, src; FILL: dst;
                                  LOOP: number of its END, nops 1: it counts down; END: of its LOOP */
    int32_t ints, nints;       /* LAUNCH: dims[ints ..]; LOOP, nints 1: number of its rows' size */
    int32_t cells;             /* LAUNCH: number of a size */
    tn_when when;
    double value;              /* FILL */
    const char *where;
    const char *text;          /* PRINT: what stands before the value, operands[operands] */
    int32_t place;             /* that works; COPY: of what is read */
} tn_step;

/* Steps first .. first+n-1, products and launches, that the CPU runs block by block of `rows` (number of
 * a size). Rows: those of each product (batch0 * batch1 * m), some cells of each launch; blocks are
 * independent. Depth: the one product's k. Buffers of the strip have memory for the rows of a block. */
enum { TN_STRIP_STEPS = 16, TN_STRIP_BUFFERS = 16 }; /* no strip has more */
typedef struct {
    int32_t first, n, depth, rows;
} tn_strip;

typedef struct {
    const char *name;
    int32_t buffer;
    int8_t optional, inout, is_result;
} tn_arg;

enum { TN_METHOD, TN_FORWARD_TRAIN, TN_BACKWARD, TN_GRAD, TN_STEP, TN_UPDATE, TN_INIT, TN_TEST };
typedef struct {
    const char *name;   /* "forward", "forward_train", "forward_backward", "loss_step" */
    const char *method; /* "forward" */
    int32_t kind;
    int32_t nsymbols, ndims, nbuffers, nargs, nsteps, nchecks, ntape, nloads;
    const tn_symbol *symbols;
    const int64_t *code;     /* all sizes */
    const int32_t *dim_code; /* ndims: where each begins in code */
    const int32_t *lists;    /* shapes, operands' sizes: numbers of sizes */
    const tn_guard *guards;
    const tn_check *checks;
    const tn_buffer *buffers; /* [0] unused */
    const tn_arg *args;       /* arguments, then results */
    const int32_t *tape;      /* buffers */
    const tn_operand *operands;
    const tn_gemm_step *gemms;
    const tn_step *steps;
    int32_t nstrips;
    const tn_strip *strips;  /* in order of their steps */
} tn_program;

enum { TN_SLOT_PARAM, TN_SLOT_GRAD, TN_SLOT_MOMENT, TN_SLOT_BUFFER, TN_SLOT_HYPER, TN_SLOT_COUNTER,
       TN_SLOT_SEED, TN_SLOT_CALLS };
typedef struct {
    const char *name;
    int8_t kind, dtype, saved;
    int64_t numel;
    double initial;
    int32_t segment; /* GRAD, MOMENT: slot of the parameters */
    int32_t place;
} tn_slot;

typedef struct {
    const char *name;
    const char *const *aliases; /* NULL-terminated, or NULL */
    int32_t slot;
    int64_t offset;
    int8_t dtype, rank, is_param, trainable, saved;
    int64_t shape[8];
} tn_state_view;

typedef struct {
    const char *method;      /* loss */
    const char *step;        /* program */
    int32_t accumulate;
} tn_train;

/* Device code of a model: all its kernels, for one architecture. PTX text ends with a 0 byte. */
typedef struct {
    int32_t arch;   /* 80: sm_80 */
    int32_t is_ptx; /* 1: PTX text, for this architecture and all later ones; 0: a cubin */
    const void *data;
    size_t bytes;   /* of data; 0: the cubin itself says */
    size_t whole;   /* != 0: data is one LZ4 block, which unpacks to so many bytes */
} tn_image;

/* A device that a model names: {1, 0} the CPU, {2, N} cuda:N (DLPack's numbers); number -1: the
 * default device, of this type. */
typedef struct {
    int32_t type, number;
} tn_place;

typedef struct tn_model_desc tn_model_desc;
struct tn_model_desc {
    int32_t abi, size; /* TN_ABI, sizeof(tn_model_desc) */
    const char *name, *version, *source; /* model, compiler version, .tn file */
    int32_t nslots, nviews, nkernels, nprograms, ntrains;
    const tn_slot *slots; /* [0] unused */
    const tn_state_view *views;
    const tn_kernel *kernels;
    const tn_program *programs;
    const tn_train *trains;
    const tn_image *images;    /* of a model for CUDA: its code; its kernels' `cpu` are NULL */
    const tn_model_desc *cuda; /* of a model for the CPU: the same model for CUDA, or NULL. Slots,
                                  views and trains of both are equal */
    int32_t nimages;
    int32_t level; /* TN_LEVEL: 1, or what every kernel needs: 3 for x86-64-v3, 4 for x86-64-v4 */
    int32_t nplaces;           /* 0: all is on one device, which the caller chooses */
    const tn_place *places;    /* else: [0] the default device */
};

/* Generated code defines:  const tn_model_desc MODEL_desc;  */

#ifdef __cplusplus
}
#endif
#endif
