/* drv_library.c: libraries and kernels (cuLibrary*, cuKernel*): modules that are loaded into a
 * context when it first uses them. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_module.h"

#include <stdlib.h>
#include <string.h>

/** The library's module in a context, loaded now if need be. */
static ModuleHandle *library_module(Library *l, Context *c, CUresult *r)
{
    ModuleHandle **at = &l->modules[c->device->ordinal];
    const char *why;
    *r = CUDA_SUCCESS;
    if (*at && !(*at)->h.dead && (*at)->h.context == c)
        return *at;
    *r = module_make(c, l->image, at, &why);
    if (*r)
        return NULL;
    (*at)->library = l;
    (*at)->h.inner = true;
    return *at;
}

Function *kernel_function(const Kernel *k, Context *c)
{
    CUresult r;
    const ModuleHandle *m = library_module(k->library, c, &r);
    return m ? module_function(m->module, k->name) : NULL;
}

static CUresult load(CUlibrary *out, const char *image)
{
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    bool ptx = memcmp(image, "\177ELF", 4) && *(const unsigned char *)image < 0x80;
    if (!ptx)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    Library *l = handle_new(HANDLE_LIBRARY, sizeof *l, NULL);
    l->image = drv_copy(image, strlen(image) + 1);
    CUresult r;
    if (context_current() && !library_module(l, context_current(), &r)) {
        free(l->image);
        handle_kill(&l->h);
        return r;
    }
    *out = (CUlibrary)l;
    return CUDA_SUCCESS;
}

API cuLibraryLoadData(CUlibrary *out, const void *image, CUjit_option *jit, void **jit_values,
                      unsigned int njit, CUlibraryOption *names, void **values, unsigned int n)
{
    CUresult r = call_enter(__func__, INIT);
    (void)jit, (void)jit_values, (void)njit, (void)names, (void)values, (void)n;
    if (!r)
        r = load(out, image);
    return call_leave(r);
}

API cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *jit, void **jit_values,
                          unsigned int njit, CUlibraryOption *names, void **values, unsigned int n)
{
    CUresult r = call_enter(__func__, INIT);
    (void)jit, (void)jit_values, (void)njit, (void)names, (void)values, (void)n;
    if (!r) {
        char *image = read_file(path);
        r = image ? load(out, image) : CUDA_ERROR_FILE_NOT_FOUND;
        free(image);
    }
    return call_leave(r);
}

static void end_kernel(Handle *h, void *library)
{
    if (((Kernel *)h)->library == library)
        handle_kill(h);
}

API cuLibraryUnload(CUlibrary handle)
{
    CUresult r = call_enter(__func__, INIT);
    Library *l = r ? NULL : handle_get(handle, HANDLE_LIBRARY);
    if (!r && !l)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r) {
        queue_flush();
        handle_each(HANDLE_KERNEL, end_kernel, l);
        for (int k = 0; k < 16; k++)
            if (l->modules[k] && !l->modules[k]->h.dead)
                module_end(l->modules[k]);
        free(l->image);
        handle_kill(&l->h);
    }
    return call_leave(r);
}

/** The library of a call; NULL with *r set. */
static Library *enter_library(const char *name, CUlibrary handle, const void *out, CUresult *r)
{
    *r = call_enter(name, WORKING);
    Library *l = *r ? NULL : handle_get(handle, HANDLE_LIBRARY);
    if (!*r && !l)
        *r = CUDA_ERROR_INVALID_HANDLE;
    if (!*r && !out)
        *r = CUDA_ERROR_INVALID_VALUE;
    return *r ? NULL : l;
}

API cuLibraryGetKernel(CUkernel *out, CUlibrary handle, const char *name)
{
    CUresult r;
    Library *l = enter_library(__func__, handle, name ? out : NULL, &r);
    const ModuleHandle *m = l ? library_module(l, context_current(), &r) : NULL;
    if (m && !module_function(m->module, name))
        r = CUDA_ERROR_NOT_FOUND;
    if (!r) {
        Kernel *k = handle_new(HANDLE_KERNEL, sizeof *k, NULL);
        k->h.inner = true;
        k->library = l;
        k->name = drv_intern(name);
        *out = (CUkernel)k;
    }
    return call_leave(r);
}

API cuLibraryGetModule(CUmodule *out, CUlibrary handle)
{
    CUresult r;
    Library *l = enter_library(__func__, handle, out, &r);
    ModuleHandle *m = l ? library_module(l, context_current(), &r) : NULL;
    if (!r)
        *out = (CUmodule)m;
    return call_leave(r);
}

API cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary handle, const char *name)
{
    CUresult r;
    Library *l = enter_library(__func__, handle, name, &r);
    const ModuleHandle *m = l ? library_module(l, context_current(), &r) : NULL;
    const Variable *v = m ? module_variable(m->module, name) : NULL;
    if (!r && !v)
        r = CUDA_ERROR_NOT_FOUND;
    if (!r && address)
        *address = v->address;
    if (!r && bytes)
        *bytes = v->size;
    return call_leave(r);
}

/** The function of a kernel's handle in the current context; NULL with *r set. */
static Function *enter_kernel(const char *name, CUkernel handle, CUresult *r)
{
    *r = call_enter(name, WORKING);
    const Kernel *k = *r ? NULL : handle_get(handle, HANDLE_KERNEL);
    Function *f = k ? kernel_function(k, context_current()) : NULL;
    if (!*r && !f)
        *r = CUDA_ERROR_INVALID_HANDLE;
    return f;
}

API cuKernelGetFunction(CUfunction *out, CUkernel handle)
{
    CUresult r;
    Function *f = enter_kernel(__func__, handle, &r);
    if (f && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = (CUfunction)f;
    return call_leave(r);
}

API cuKernelGetName(const char **name, CUkernel handle)
{
    CUresult r;
    const Function *f = enter_kernel(__func__, handle, &r);
    if (f && !name)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *name = f->name;
    return call_leave(r);
}

API cuKernelGetAttribute(int *out, CUfunction_attribute attribute, CUkernel handle, CUdevice device)
{
    CUresult r;
    const Function *f = enter_kernel(__func__, handle, &r);
    if (f && !device_is(device))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r && (!out || !function_attribute(out, attribute, f)))
        r = CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                         CUdevice device)
{
    CUresult r;
    Function *f = enter_kernel(__func__, handle, &r);
    if (f && !device_is(device))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r)
        r = function_set(f, attribute, value);
    return call_leave(r);
}
