/* drv_module.c: modules from PTX, their functions and variables. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_module.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* --- images ---------------------------------------------------------------------------------- */

/** What the image is: PTX is text that begins with .version, or comments before it. */
static CUresult check_image(const char *image, const char **why)
{
    static const unsigned char fatbin[4] = {0x50, 0xed, 0x55, 0xba};
    static const unsigned char wrapper[4] = {0xb1, 0x43, 0x62, 0x46};
    if (!memcmp(image, "\177ELF", 4)) {
        *why = "a cubin holds machine code, which a virtual device does not run";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (!memcmp(image, fatbin, 4) || !memcmp(image, wrapper, 4)) {
        *why = "the fat binary has no code for a virtual device";
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const char *at = image;
    while (isspace((unsigned char)*at) || (at[0] == '/' && at[1] == '/'))
        at += *at == '/' ? strcspn(at, "\n") : 1;
    if (!strncmp(at, ".version", 8))
        return CUDA_SUCCESS;
    *why = "the image is neither PTX nor a binary";
    return CUDA_ERROR_INVALID_IMAGE;
}

/** PTX for sm_90 runs on 90 and later, for sm_90a on 90 alone. */
static CUresult check_target(const char *ptx, const char **why)
{
    static char text[160];
    unsigned major = 0, minor = 0, sm = 0;
    const char *version = strstr(ptx, ".version"), *target = strstr(ptx, ".target");
    if (sscanf(version + 8, " %u.%u", &major, &minor) == 2 && major * 10 + minor > 90) {
        snprintf(text, sizeof text, "PTX %u.%u is newer than the driver, which knows 9.0", major,
                 minor);
        *why = text;
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    const char *number = target ? strstr(target, "sm_") : NULL;
    if (!number)
        return CUDA_SUCCESS; /* the parser says what is missing */
    number += 3;
    while (isdigit((unsigned char)*number))
        sm = sm * 10 + (unsigned)(*number++ - '0');
    unsigned device = (unsigned)options()->capability;
    if (sm <= device && !(*number == 'a' && sm != device) &&
        !(*number == 'f' && sm / 10 != device / 10))
        return CUDA_SUCCESS;
    snprintf(text, sizeof text, "PTX for sm_%u%s does not run on a device of sm_%u", sm,
             *number == 'a'   ? "a"
             : *number == 'f' ? "f"
                              : "",
             device);
    *why = text;
    return CUDA_ERROR_INVALID_PTX;
}

/** What the compiler for the device would refuse. */
static CUresult check_sizes(const Module *m, const char **why)
{
    static char text[400];
    static const struct {
        const char *what;
        uint32_t most;
    } limits[] = {{"shared memory", 49152}, {"parameters", 32764}};
    for (int k = 0; k < m->nfunctions; k++) {
        const Function *f = &m->functions[k];
        const uint32_t sizes[] = {f->shared_bytes, f->param_bytes};
        for (int j = 0; j < 2; j++) {
            if (sizes[j] <= limits[j].most)
                continue;
            snprintf(text, sizeof text, "kernel %.200s has %u bytes of %s, the limit is %u",
                     f->name, sizes[j], limits[j].what, limits[j].most);
            *why = text;
            return CUDA_ERROR_INVALID_PTX;
        }
    }
    return CUDA_SUCCESS;
}

/* Every launch looks for its function here. */
static struct {
    ModuleHandle **at;
    size_t n;
} loaded;

CUresult module_make(Context *c, const void *image, ModuleHandle **out, const char **why)
{
    *why = "";
    CUresult r = check_image(image, why);
    if (!r)
        r = check_target(image, why);
    if (r)
        return r;
    Module *m = module_load(c->device, image, strlen(image), why);
    if (!m)
        return CUDA_ERROR_INVALID_PTX;
    r = check_sizes(m, why);
    if (r) {
        module_unload(m);
        return r;
    }
    ModuleHandle *h = handle_new(HANDLE_MODULE, sizeof *h, c);
    h->module = m;
    loaded.at = drv_grow(loaded.at, (loaded.n + 1) * sizeof(ModuleHandle *));
    loaded.at[loaded.n++] = h;
    *out = h;
    return CUDA_SUCCESS;
}

void module_end(ModuleHandle *h)
{
    size_t k = 0;
    while (loaded.at[k] != h)
        k++;
    loaded.at[k] = loaded.at[--loaded.n];
    module_unload(h->module);
    h->module = NULL;
    handle_kill(&h->h);
}

/* The buffer of an option takes the text; its size option then holds the length. */
static void give_log(unsigned n, const CUjit_option *options_, void **values, CUjit_option buffer,
                     CUjit_option size, const char *text)
{
    char *to = NULL;
    size_t room = 0;
    for (unsigned k = 0; k < n; k++) {
        if (options_[k] == buffer)
            to = values[k];
        if (options_[k] == size)
            room = (size_t)(unsigned)(uintptr_t)values[k];
    }
    if (to && room)
        snprintf(to, room, "%s", text);
    size_t length = strlen(text) + 1;
    for (unsigned k = 0; k < n; k++)
        if (options_[k] == size)
            values[k] = (void *)(uintptr_t)(length < room ? length : room);
}

static CUresult load(CUmodule *out, const void *image, unsigned n, const CUjit_option *names,
                     void **values)
{
    if (!out || !image || (n && (!names || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = capture_unsafe();
    if (r)
        return r;
    ModuleHandle *h = NULL;
    const char *why = "";
    r = module_make(context_current(), image, &h, &why);
    give_log(n, names, values, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
             r ? why : "");
    give_log(n, names, values, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
    /* A cubin is a fair question; PTX that does not load has no second meaning. */
    if (r == CUDA_ERROR_INVALID_PTX || r == CUDA_ERROR_INVALID_IMAGE)
        fprintf(stderr, "vgpu: %s: %s\n", call_name(), why);
    call_note("%s", why);
    if (!r)
        *out = (CUmodule)h;
    return r;
}

API cuModuleLoadData(CUmodule *out, const void *image)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = load(out, image, 0, NULL, NULL);
    return call_leave(r);
}

API cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int n, CUjit_option *names,
                       void **values)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = load(out, image, n, names, values);
    return call_leave(r);
}

API cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = load(out, image, 0, NULL, NULL);
    return call_leave(r);
}

char *read_file(const char *path)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f)
        return NULL;
    size_t n = 0, got;
    char *text = drv_alloc(65537);
    while ((got = fread(text + n, 1, 65536, f)) > 0) {
        n += got;
        text = drv_grow(text, n + 65537);
    }
    fclose(f);
    text[n] = '\0';
    return text;
}

API cuModuleLoad(CUmodule *out, const char *path)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r) {
        char *text = read_file(path);
        r = text ? load(out, text, 0, NULL, NULL) : CUDA_ERROR_FILE_NOT_FOUND;
        free(text);
    }
    return call_leave(r);
}

API cuModuleUnload(CUmodule handle)
{
    CUresult r = call_enter(__func__, CURRENT);
    ModuleHandle *h = r ? NULL : handle_get(handle, HANDLE_MODULE);
    if (!r)
        r = capture_unsafe();
    if (!r && !h)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && h->library)
        r = misuse(CUDA_ERROR_NOT_PERMITTED, "the module belongs to a library");
    if (!r) {
        queue_flush(); /* its kernels may be queued */
        r = context_current()->error;
        module_end(h);
    }
    return call_leave(r);
}

API cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CUresult r = call_enter(__func__, ALWAYS);
    if (!r && !mode)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *mode = CU_MODULE_EAGER_LOADING;
    return call_leave(r);
}

/* --- what is in them ------------------------------------------------------------------------- */

/** The module of a call; NULL with *r set. */
static Module *enter_module(const char *name, CUmodule handle, CUresult *r)
{
    *r = call_enter(name, WORKING);
    ModuleHandle *h = *r ? NULL : handle_get(handle, HANDLE_MODULE);
    if (!*r && !h)
        *r = CUDA_ERROR_INVALID_HANDLE;
    return h ? h->module : NULL;
}

API cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
    CUresult r;
    Module *m = enter_module(__func__, handle, &r);
    call_note("%s", name ? name : "NULL");
    if (m && (!out || !name))
        r = CUDA_ERROR_INVALID_VALUE;
    Function *f = r ? NULL : module_function(m, name);
    if (!r && !f)
        r = CUDA_ERROR_NOT_FOUND;
    if (!r)
        *out = (CUfunction)f;
    return call_leave(r);
}

API cuModuleGetFunctionCount(unsigned int *count, CUmodule handle)
{
    CUresult r;
    const Module *m = enter_module(__func__, handle, &r);
    if (m && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *count = (unsigned)m->nfunctions;
    return call_leave(r);
}

API cuModuleEnumerateFunctions(CUfunction *out, unsigned int n, CUmodule handle)
{
    CUresult r;
    const Module *m = enter_module(__func__, handle, &r);
    if (m && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    for (int k = 0; !r && k < m->nfunctions && k < (int)n; k++)
        out[k] = (CUfunction)&m->functions[k];
    return call_leave(r);
}

API cuModuleGetGlobal(CUdeviceptr *address, size_t *bytes, CUmodule handle, const char *name)
{
    CUresult r;
    Module *m = enter_module(__func__, handle, &r);
    if (m && (!name || (!address && !bytes)))
        r = CUDA_ERROR_INVALID_VALUE;
    const Variable *v = r ? NULL : module_variable(m, name);
    if (!r && !v)
        r = CUDA_ERROR_NOT_FOUND;
    if (!r && address)
        *address = v->address;
    if (!r && bytes)
        *bytes = v->size;
    return call_leave(r);
}

/* --- functions ------------------------------------------------------------------------------- */

ModuleHandle *function_module(const Function *f)
{
    for (size_t k = 0; k < loaded.n; k++) {
        const Module *m = loaded.at[k]->module;
        for (int j = 0; j < m->nfunctions; j++)
            if (&m->functions[j] == f)
                return loaded.at[k];
    }
    return NULL;
}

Context *function_context(const Function *f)
{
    const ModuleHandle *m = function_module(f);
    return m ? m->h.context : NULL;
}

Function *function_get(CUfunction handle)
{
    Function *f = (Function *)handle;
    if (f && handle_is(f, HANDLE_KERNEL))
        f = kernel_function((Kernel *)handle, context_current());
    if (f && function_module(f))
        return f;
    misuse(CUDA_ERROR_INVALID_HANDLE, "%p is not a function of a loaded module", (void *)handle);
    return NULL;
}

/** The function of a call; NULL with *r set. */
static Function *enter_function(const char *name, CUfunction handle, CUresult *r)
{
    *r = call_enter(name, WORKING);
    Function *f = *r ? NULL : function_get(handle);
    if (!*r && !f)
        *r = CUDA_ERROR_INVALID_HANDLE;
    return f;
}

uint32_t function_max_dynamic(const Function *f)
{
    uint32_t usual = f->shared_bytes < 49152 ? 49152 - f->shared_bytes : 0;
    return f->max_dynamic > usual ? f->max_dynamic : usual;
}

bool function_attribute(int *out, CUfunction_attribute attribute, const Function *f)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *out = function_max_threads(f);
        return true;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *out = (int)f->shared_bytes;
        return true;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *out = (int)f->local_bytes;
        return true;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *out = function_registers(f);
        return true;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        *out = f->module->target;
        return true;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *out = options()->capability;
        return true;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *out = (int)function_max_dynamic(f);
        return true;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *out = -1;
        return true;
    default:
        *out = 0;
        return attribute >= 0 && attribute < CU_FUNC_ATTRIBUTE_MAX;
    }
}

CUresult function_set(Function *f, CUfunction_attribute attribute, int value)
{
    int most = device_model()->shared_optin - (int)f->shared_bytes;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || value > most)
            return CUDA_ERROR_INVALID_VALUE;
        f->max_dynamic = (uint32_t)value;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return value >= -1 && value <= 100 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

API cuFuncGetAttribute(int *out, CUfunction_attribute attribute, CUfunction handle)
{
    CUresult r;
    const Function *f = enter_function(__func__, handle, &r);
    if (f && (!out || !function_attribute(out, attribute, f)))
        r = CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
    CUresult r;
    Function *f = enter_function(__func__, handle, &r);
    call_note("%s, %d, %d", f ? f->name : "", (int)attribute, value);
    if (f)
        r = function_set(f, attribute, value);
    return call_leave(r);
}

API cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
    CUresult r;
    const Function *f = enter_function(__func__, handle, &r);
    if (f && (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL))
        r = CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuFuncGetName(const char **name, CUfunction handle)
{
    CUresult r;
    const Function *f = enter_function(__func__, handle, &r);
    if (f && !name)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *name = f->name;
    return call_leave(r);
}

API cuFuncGetModule(CUmodule *out, CUfunction handle)
{
    CUresult r;
    const Function *f = enter_function(__func__, handle, &r);
    if (f && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = (CUmodule)function_module(f);
    return call_leave(r);
}

API cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
    CUresult r;
    const Function *f = enter_function(__func__, handle, &r);
    if (f && (index >= (size_t)f->nparams || !offset))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        *offset = f->params[index].offset;
        if (size)
            *size = f->params[index].size;
    }
    return call_leave(r);
}

API cuFuncLoad(CUfunction handle)
{
    CUresult r;
    enter_function(__func__, handle, &r);
    return call_leave(r);
}

API cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
    CUresult r;
    const Function *f = enter_function(__func__, handle, &r);
    if (f && !state)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return call_leave(r);
}
