/* drv_module.h: modules, and the libraries that make them by context. SPDX-License-Identifier: MIT
 */
#ifndef VGPU_DRV_MODULE_H
#define VGPU_DRV_MODULE_H

#include "tests/vgpu/drv.h"

typedef struct Library Library;

typedef struct {
    Handle h;
    Module *module;
    Library *library; /* that made it, or NULL */
} ModuleHandle;

struct Library {
    Handle h;
    char *image;
    ModuleHandle *modules[16]; /* by device, of its primary context or the one that was current */
};

typedef struct {
    Handle h;
    Library *library;
    const char *name;
} Kernel;

/** Loads the image into the context. *why: what is wrong with it. */
CUresult module_make(Context *c, const void *image, ModuleHandle **out, const char **why);
void module_end(ModuleHandle *h);
ModuleHandle *function_module(const Function *f);
/** The function that the kernel is in this context, or NULL. */
Function *kernel_function(const Kernel *k, Context *c);
/** Of an attribute's value; false: there is none. */
bool function_attribute(int *out, CUfunction_attribute attribute, const Function *f);
CUresult function_set(Function *f, CUfunction_attribute attribute, int value);
/** The most dynamic shared memory that a launch may ask for now. */
uint32_t function_max_dynamic(const Function *f);
/** The bytes of a file, ended by a zero, or NULL; to be freed. */
char *read_file(const char *path);

#endif
