/* device.c: see device.h. SPDX-License-Identifier: MIT */
#include "frontend/device.h"

#include "codegen/images.h"
#include "codegen/nvrtc.h"
#include "ir/base/die.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Capability of a device, as in sm_NN; 0 after a failure of the runtime. */
static int capability(DLDevice device)
{
    tn_context *ctx = NULL;
    tn_device_info info = {.size = sizeof info};
    int sm = 0;
    if (!tn_context_create(NULL, &ctx) && !tn_device_available(ctx, device) &&
        !tn_device_properties(ctx, device, &info))
        sm = 10 * info.major + info.minor;
    tn_context_destroy(ctx);
    return sm;
}

bool device_default_gpu(const Options *o, const Program *p)
{
    return program_gpu(p) >= 0 && strcmp(o->device, "cpu") != 0;
}

int device_gpus(const Options *o)
{
    tn_context *ctx = NULL;
    if (!o->place_auto || !strcmp(o->device, "cpu") || tn_context_create(NULL, &ctx))
        return 0;
    const int n = tn_device_count(ctx, kDLCUDA);
    tn_context_destroy(ctx);
    return n < 2 ? 0 : n < MAX_GPUS ? n : MAX_GPUS;
}

/* --- code for files ------------------------------------------------------------------------------
 */

/* Two generations that most have; newer ones compile the PTX that goes with the lowest. */
static const char *const usual_archs[] = {"sm_80", "sm_90"};

static int read_archs(Drive *d, Texts *archs)
{
    const Options *o = d->o;
    for (uint32_t i = 0; i < o->arch.n; i++) {
        const char *arch = o->arch.at[i];
        if (!strcmp(arch, "native")) {
            const int sm = capability((DLDevice){kDLCUDA, 0});
            if (!sm)
                return message_error(STATUS_MACHINE, "-arch=native: %s", tn_last_error());
            arch = arena_printf(d->a, "sm_%d", sm);
        }
        vec_push(d->a, archs, arch);
    }
    for (size_t i = 0; i < ARRAY_LEN(usual_archs) && !o->arch.n; i++)
        vec_push(d->a, archs, usual_archs[i]);
    return STATUS_DONE;
}

int device_targets(Drive *d, const Program *p, bool sources, bool *cpu, bool *cuda, Texts *archs)
{
    const char *why = NULL;
    *cpu = d->o->cpu;
    *cuda = d->o->cuda;
    if (*cuda && !d->o->target_given && !sources && !images_compiler(d->a, &why)) {
        *cuda = false;
        if (d->o->arch.n)
            return message_error(STATUS_MACHINE, "-arch: no NVRTC (install the CUDA toolkit): %s",
                                 why);
        if (d->o->verbose)
            fprintf(stderr, "tenon: note: code for the CPU only; no NVRTC: %s\n", why);
    }
    const int gpu = program_gpu(p);
    if (gpu >= 0 && !*cuda && d->o->target_given)
        return message_error(STATUS_USAGE,
                             "the model uses cuda:%d: -target=cpu makes no code for it", gpu);
    if (gpu >= 0 && !*cuda)
        return message_error(STATUS_MACHINE,
                             "the model uses cuda:%d: no NVRTC (install the CUDA "
                             "toolkit): %s",
                             gpu, why);
    *cpu = *cpu && gpu < 0; /* one program for its mix of devices */
    return *cuda && !sources ? read_archs(d, archs) : STATUS_DONE;
}

int device_first_arch(Drive *d, int *sm)
{
    Texts archs = {0};
    const int status = read_archs(d, &archs);
    if (!status)
        *sm = atoi(archs.at[0] + strlen("sm_"));
    return status;
}

int device_uses(Drive *d, const HostModel *cuda, const KernelUses **uses)
{
    const char *why = NULL;
    Texts archs = {0};
    StrBuf text = {.a = d->a};
    NvrtcImage image;
    *uses = NULL;
    Nvrtc *n = nvrtc_open(d->a, &why);
    const int status = n ? read_archs(d, &archs) : STATUS_DONE;
    if (n && !status) {
        KernelUses *found = arena_new(d->a, KernelUses);
        codegen_cuda(cuda, &text);
        if (nvrtc_compile(n, sb_text(&text), "kernels.cu", archs.at[0], NVRTC_USE, &image)) {
            ptxas_read(d->a, image.log, found);
            *uses = found;
        }
    }
    nvrtc_close(n);
    return status;
}

/* --- models in memory ----------------------------------------------------------------------------
 */

/* The device, and its capability where it is a GPU. */
static int choose(Drive *d, DLDevice *device, int *sm)
{
    const char *name = d->o->device, *why = NULL;
    *device = (DLDevice){kDLCPU, 0};
    *sm = 0;
    if (!strcmp(name, "cpu"))
        return STATUS_DONE;
    const bool automatic = !strcmp(name, "auto");
    const DLDevice gpu = {kDLCUDA, name[strcspn(name, ":")] ? atoi(strchr(name, ':') + 1) : 0};
    *sm = capability(gpu);
    if (!*sm && !automatic)
        return message_error(STATUS_MACHINE, "-device=%s: %s", name, tn_last_error());
    if (*sm && automatic && !images_compiler(d->a, &why))
        *sm = 0; /* who asks for a GPU may have the code in the cache */
    if (*sm)
        *device = gpu;
    if (d->o->verbose)
        fprintf(stderr, "tenon: note: the model lives on %s\n",
                *sm ? arena_printf(d->a, "cuda:%d (sm_%d)", gpu.device_id, *sm) : "the CPU");
    return STATUS_DONE;
}
/* The capability of the GPUs that the model names; 0: it names none. */
static int named_gpus(const Program *p, int *sm)
{
    const int first = program_gpu(p);
    if (first < 0)
        return STATUS_DONE;
    *sm = capability((DLDevice){kDLCUDA, first});
    return *sm ? STATUS_DONE
               : message_error(STATUS_MACHINE, "the model uses cuda:%d: %s", first,
                               tn_last_error());
}

/* Microseconds of all that users call, at the usual sizes. */
static double time_of(const HostModel *m)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->programs.n; i++) {
        const HostProgram *h = m->programs.at[i];
        for (uint32_t k = 0; k < h->steps.n && h->graph->kind != GRAPH_INIT; k++)
            sum += host_step_time(m, h, &h->steps.at[k]);
    }
    return sum;
}

/* -fplace=auto: work that is over on the CPU before a GPU has begun stays there. */
static HostModel *place_little(Drive *d, Program *p, HostModel *m, DLDevice *device, int *code)
{
    const Options *o = d->o;
    if (!o->place_auto || strcmp(o->device, "auto") || !*code || program_has_places(p))
        return m;
    HostModel *cpu = compile_lower(d->c, p, false);
    if (!cpu)
        return NULL;
    const double here = time_of(cpu), there = time_of(m);
    const bool stays = here < there;
    fprintf(
        stderr,
        "tenon: note: -fplace=auto: about %.0f microseconds on the CPU, %.0f on cuda:%d: it goes "
        "to %s (-device=%s keeps that)\n",
        here, there, (int)device->device_id, stays ? "the CPU" : "the GPU", stays ? "cpu" : "cuda");
    if (!stays)
        return m;
    *device = (DLDevice){kDLCPU, 0};
    *code = 0;
    return cpu;
}

int device_load(Drive *d, Program *p, LoadedModel *model, DLDevice *device)
{
    int sm, code = 0, status = choose(d, device, &sm);
    if (!status)
        status = named_gpus(p, &code);
    if (status)
        return status;
    code = sm ? sm : code;
    d->c->debug = d->o->debug || code; /* nobody reads this CUDA text, but tools ask it for lines */
    HostModel *m = compile_lower(d->c, p, sm != 0);
    m = m ? place_little(d, p, m, device, &code) : NULL;
    if (!m) {
        status = drive_messages(d);
        return status ? status : STATUS_INPUT;
    }
    const double from = compile_now();
    *model =
        code ? codegen_load_cuda(d->a, m, code, d->o->level) : codegen_load(d->a, m, d->o->level);
    compile_time(d->c, model->cached ? "load from the cache" : "compile and load", from);
    if (!model->status)
        return STATUS_DONE;
    const char *no_folder = drive_bad_temporary_folder(d->a);
    return message_error(no_folder ? STATUS_MACHINE : model->status, "%s",
                         no_folder ? no_folder : model->message);
}
