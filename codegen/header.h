/* header.h: the header of a compiled model, and its manifest. cli-and-api.md, "Generated header".
 * SPDX-License-Identifier: MIT */
#ifndef TENON_CODEGEN_HEADER_H
#define TENON_CODEGEN_HEADER_H

#include "ir/host.h"

/** C99, usable from C++: handle, create, destroy, one function a program, with the model's docs. */
void header_text(const HostModel *m, StrBuf *out);

/** JSON: methods with arguments, sizes and facts; state with segment, offset, shape, dtype;
 * kernels; ABI. */
void manifest_text(const HostModel *m, StrBuf *out);

/** The Python module: loads `library` beside it, and the runtime from the path `runtime` (may be
 * NULL) where there is none nearer. */
void python_text(const HostModel *m, const char *library, const char *runtime, StrBuf *out);

#endif
