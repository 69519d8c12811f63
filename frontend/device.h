/* device.h: what -device=, -target= and -arch= stand for on this machine.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_DEVICE_H
#define TENON_DEVICE_H

#include "codegen/output.h"
#include "codegen/ptxas.h"
#include "frontend/drive.h"
#include "runtime/include/tenon.h"

/** Which targets code is made for, and which architectures: -target, else both where there is an
 * NVRTC (sources need none). STATUS_MACHINE after a message where -arch=native finds no GPU. */
int device_targets(Drive *d, const Program *p, bool sources, bool *cpu, bool *cuda, Texts *archs);

/** The first architecture of -arch, as in sm_80. The exit status. */
int device_first_arch(Drive *d, int *sm);

/** What each kernel of a model for CUDA needs on the first architecture of -arch; *uses is NULL
 * where there is no NVRTC. The exit status. */
int device_uses(Drive *d, const HostModel *cuda, const KernelUses **uses);

/** Whether a model that names GPUs has one as its default device. */
bool device_default_gpu(const Options *o, const Program *p);

/** GPUs over which -fplace=auto may spread a model; 0: it may not, or there is one at most. */
int device_gpus(const Options *o);

/** Compiles the model for the device that -device= names, or for the first GPU that can be used,
 * else the CPU, and loads it. The exit status. */
int device_load(Drive *d, Program *p, LoadedModel *model, DLDevice *device);

#endif
