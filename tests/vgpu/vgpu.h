/* vgpu.h: what the parts of the virtual GPU share: modules, instructions, warps, memory, findings.
 * README.md says how they fit together. SPDX-License-Identifier: MIT */
#ifndef VGPU_H
#define VGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { LANES = 32, MAX_WARPS = 32, MAX_BARRIERS = 16 };
#define ALL_LANES 0xffffffffu

typedef struct Inst Inst;
typedef struct Warp Warp;
typedef struct Block Block;
typedef struct Grid Grid;
typedef struct Function Function;
typedef struct Module Module;
typedef struct Alloc Alloc;
typedef struct Device Device;

/* --- instructions: decode.c makes them, sched.c runs them
 * ------------------------------------------ */

/* Runs an instruction for the lanes of `mask` (never 0). */
typedef void Exec(Warp *w, const Inst *i, uint32_t mask);

typedef enum {
    INST_PLAIN,        /* exec does all */
    INST_BRANCH,       /* to `target`; guard decides by lane */
    INST_BRANCH_INDEX, /* brx.idx: targets in `list` (nlist of them), index in slot a */
    INST_EXIT,         /* ret, exit of an entry */
    INST_BARRIER,      /* bar.*, barrier.*: the whole block; sched.c */
    INST_WARP, /* *.sync: waits for the lanes of the member mask (slot `member`), then exec */
    INST_TRAP
} InstKind;

enum { NO_GUARD = 0xffffffffu, NO_SLOT = 0xffffffffu };

/* An operand is a slot: the byte offset of 32 lanes of 4 or 8 bytes in Warp.regs. Registers
 * narrower than 32 bits live in slots of 4 bytes (upper bits are not specified: readers cut them
 * off). Immediates, special registers and addresses of variables are slots too, filled before the
 * first instruction. A predicate operand is an index in Warp.preds. */
struct Inst {
    Exec *exec;
    uint32_t d, a, b, c, e; /* destination and sources; meaning by the rule */
    uint32_t d2;            /* second destination: predicate of shfl a|p, setp p|q; NO_SLOT */
    int64_t imm;            /* [a + imm] */
    uint32_t guard;         /* predicate, or NO_GUARD */
    uint32_t target;        /* instruction of a branch */
    uint32_t member;        /* INST_WARP: slot of the member mask, or NO_SLOT: all live lanes */
    const uint32_t *list;   /* slots of {a, b, c, d}, in order */
    uint8_t nlist;
    uint8_t kind;                 /* InstKind */
    bool guard_not, a_not, c_not; /* negated predicates: @!p, !p as source a, as source c */
    bool leader;                  /* begins a basic block: diverged lanes meet here */
    uint8_t space;                /* Space */
    uint8_t size;                 /* memory: bytes of one element */
    uint8_t sub[4];               /* for the rule that made it */
    uint16_t mxcsr; /* rounding and flushing that exec needs (MXCSR_*); 0: any will do */
    uint16_t run;   /* so many instructions from here on can run without a look between them: plain,
                     * no guard, the same mode, no leader but the first; 0: not even this one */
    uint16_t run_mxcsr; /* the mode that they need, as mxcsr */
    uint8_t count;      /* CountKind, for the counters */
    uint8_t wide;       /* which fields are slots of 8-byte lanes: bit 0 d, 1 a, 2 b, 3 c, 4 e;
                         * an address may stand in a register of either width */
    uint32_t line;      /* of the PTX text */
    uint32_t file_line; /* .loc: Module.files[file] and line in it; 0: none */
    uint16_t file;
    const char *text; /* the instruction as it stands in the PTX */
    uint32_t ntext;
};

/* Inst.mxcsr: sched.c loads it where it is neither 0 nor what is loaded already. Code that computes
 * with floats outside of an exec that asked for a mode (atomics too) asks for MXCSR_NEAREST. */
enum {
    MXCSR_NEAREST = 0x1f80,
    MXCSR_DOWN = 0x2000,
    MXCSR_UP = 0x4000,
    MXCSR_ZERO = 0x6000,
    MXCSR_FLUSH = 0x8040
};

typedef enum {
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SPACE_LOCAL,
    SPACE_PARAM,
    SPACE_CONST
} Space;

/* Generic addresses of the spaces that are not device memory. */
#define SHARED_WINDOW 0x7e0000000000u
#define LOCAL_WINDOW  0x7e1000000000u
#define PARAM_WINDOW  0x7e2000000000u
#define WINDOW_SIZE   0x001000000000u

typedef enum {
    COUNT_INT,
    COUNT_FLOAT,
    COUNT_DOUBLE,
    COUNT_HALF,
    COUNT_SPECIAL,
    COUNT_CONVERT,
    COUNT_MOVE,
    COUNT_LOAD,
    COUNT_STORE,
    COUNT_ATOMIC,
    COUNT_BRANCH,
    COUNT_BARRIER,
    COUNT_WARP,
    COUNT_TENSOR,
    COUNT_KINDS
} CountKind;

/* --- rules: from opcode text to Exec; each op_*.c has one function
 * ---------------------------------- */

typedef struct {
    const char *text; /* "add.rn.f32" */
    char part[12][20];
    int n; /* parts */
} Opcode;

/* What the decoder does with an operand of the text. */
typedef enum {
    TAKES_NONE,
    TAKES_PRED, /* %p, !%p, pred constants; destination or source */
    TAKES_32, /* slot of 4-byte lanes: register, immediate (int, 0f…, negative), special register */
    TAKES_64,      /* slot of 8-byte lanes; 0d… immediates */
    TAKES_ADDRESS, /* [reg], [reg+imm], [symbol+imm]: slot in the field, offset in imm */
    TAKES_LIST32,  /* {..} of 4-byte slots, or a single register: into list/nlist */
    TAKES_LIST64,
    TAKES_LIST_OR_32, /* mov packs and unpacks; `{..}` or a register */
    TAKES_LIST_OR_64,
    TAKES_IMMEDIATE, /* a constant into imm: bar number, cp.async size */
    TAKES_MEMBER, /* the mask of an INST_WARP: as TAKES_32, but into `member`; takes no field's turn
                   */
    TAKES_SKIP    /* not in the text: the next operand goes to the field after this one */
} Takes;

typedef struct {
    Exec *exec;
    uint8_t kind;     /* InstKind */
    uint8_t count;    /* CountKind */
    uint8_t takes[6]; /* in order of the text: fields d a b c e; TAKES_NONE ends */
    uint8_t optional; /* so many of the last takes may be missing in the text: their fields are
                         NO_SLOT */
    bool no_dest;     /* first operand of the text is a source: it goes to `a` (stores, bar) */
    bool two_dests;   /* the first operand may be d|d2 */
    uint8_t space, size, sub[4];
    uint16_t mxcsr;
} Rule;

/** Each returns false when the opcode is not of its family. A known family with a modifier that it
 * does not do returns false too: loading then fails with the instruction's text. */
bool rule_alu(const Opcode *o,
              Rule *out); /* op_alu.c: integer, float, logic, compare, select, mov */
bool rule_half(const Opcode *o, Rule *out); /* op_half.c: f16, bf16, packed */
bool rule_cvt(const Opcode *o, Rule *out);  /* op_cvt.c */
bool rule_mem(const Opcode *o, Rule *out);  /* op_mem.c: ld st cvta isspacep prefetch */
bool rule_atom(const Opcode *o, Rule *out); /* op_atom.c: atom red */
bool rule_warp(const Opcode *o,
               Rule *out); /* op_warp.c: shfl vote match redux activemask bar membar */
bool rule_mma(const Opcode *o, Rule *out);  /* op_mma.c: mma */
bool rule_wmma(const Opcode *o, Rule *out); /* op_wmma.c: wmma */
bool rule_copy(const Opcode *o, Rule *out); /* op_copy.c: ldmatrix, cp.async */

/* --- modules: lex.c, parse.c, decode.c
 * --------------------------------------------------------------- */

typedef struct {
    const char *name;
    uint8_t space; /* GLOBAL, CONST, SHARED, LOCAL */
    bool external; /* extern .shared: begins after the static shared memory */
    uint32_t align;
    uint64_t size, address; /* address: device address, or offset in shared / local memory */
} Variable;

typedef struct {
    uint32_t offset, size, align;
} Parameter;

struct Function {
    const char *name;
    Module *module;
    const Parameter *params;
    int nparams;
    uint32_t param_bytes;
    uint32_t max_threads; /* .maxntid product, or 0 */
    uint32_t required[3]; /* .reqntid */
    const Inst *code;
    int ncode;
    uint32_t reg_bytes; /* of Warp.regs */
    int npreds;
    uint32_t shared_bytes, local_bytes; /* static shared; local for each thread */
    uint32_t nregisters;                /* estimate: declared 32-bit registers, capped at 255 */
    uint8_t serial;       /* grid.c: whether blocks may run at once; 0: not looked at yet */
    uint32_t max_dynamic; /* cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES) */
    /* slots to fill when a warp starts: immediates and symbols (value, width 4 or 8) */
    const struct Constant {
        uint64_t value;
        uint32_t slot;
        uint8_t width;
    } * constants;
    int nconstants;
    /* special registers: slot to fill, which one (Special) */
    const struct SpecialSlot {
        uint32_t slot;
        uint8_t which, width;
    } * specials;
    int nspecials;
};

typedef enum {
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPECIAL_NTID_X,
    SPECIAL_NTID_Y,
    SPECIAL_NTID_Z,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Y,
    SPECIAL_CTAID_Z,
    SPECIAL_NCTAID_X,
    SPECIAL_NCTAID_Y,
    SPECIAL_NCTAID_Z,
    SPECIAL_LANEID,
    SPECIAL_WARPID,
    SPECIAL_NWARPID,
    SPECIAL_LANEMASK_LT,
    SPECIAL_LANEMASK_LE,
    SPECIAL_LANEMASK_EQ,
    SPECIAL_LANEMASK_GT,
    SPECIAL_LANEMASK_GE,
    SPECIAL_SMID,
    SPECIAL_NSMID,
    SPECIAL_GRIDID,
    SPECIAL_CLOCK,
    SPECIAL_CLOCK64,
    SPECIAL_GLOBALTIMER,
    SPECIAL_DYNAMIC_SMEM,
    SPECIAL_TOTAL_SMEM,
    SPECIAL_EXTERN_SHARED /* address where `extern .shared` begins */
} Special;

struct Module {
    Device *device;
    Function *functions; /* entries only; .func is inlined by the decoder */
    int nfunctions;
    Variable *variables; /* of module scope, GLOBAL and CONST placed in device memory */
    int nvariables;
    const char **files; /* of .file */
    int nfiles;
    int target; /* sm_80: 80 */
};

/** Parses, places variables (through memory_alloc) and decodes. NULL: *why says line and
 * instruction; it lives until the next call in this thread. */
Module *module_load(Device *device, const char *ptx, size_t n, const char **why);
void module_unload(Module *m);
Function *module_function(Module *m, const char *name);
Variable *module_variable(Module *m, const char *name);

/* --- running: sched.c
 * ------------------------------------------------------------------------------- */

struct Warp {
    uint8_t *regs; /* 64-byte aligned */
    uint32_t *preds;
    Block *block;
    int id;            /* in the block */
    uint32_t live;     /* lanes that have not exited */
    uint32_t existing; /* lanes that the block has: threads % 32 in the last warp */
    uint8_t *local;    /* local_bytes for each lane, lane after lane; then 1 shadow byte per byte */
    uint32_t local_bytes;
    uint64_t executed, lane_executed;
    struct WarpState *state; /* sched.c: (pc, mask) entries, waiting; op_mma.c: copies in flight */
};

struct Block {
    Grid *grid;
    uint32_t index[3];
    uint64_t number;
    uint8_t *shared;       /* shared_bytes */
    uint32_t shared_bytes; /* static + dynamic */
    uint32_t epoch;        /* counts barriers; race.c */
    Warp *warps;
    int nwarps;
    struct Counters *counters; /* of this worker; added up at the end of the launch */
    struct Worker *worker;
};

struct Grid {
    Function *function;
    Device *device;
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared;
    const uint8_t *params; /* param_bytes */
    bool cooperative;
    uint32_t op;            /* number of the stream operation; order.c */
    const char *trace_name; /* printed in findings beside the function, or NULL */
    volatile bool stop;     /* a fatal finding: all workers end */
    uint64_t warp_insts, lane_insts;
    struct Counters *counters; /* NULL, or where the counts of this launch go too */
};

/** Runs all blocks on VGPU_THREADS workers. False after a fatal finding (the context is then
 * broken, as CUDA has it); *error is the CUresult. */
bool grid_run(Grid *g, int *error);

/** Ends the launch of `w` with this CUresult (assert: 710, trap: 719); the finding is the caller's.
 */
void grid_fail(Warp *w, int error);

/* --- memory: memory.c, shadow.c, race.c
 * -------------------------------------------------------------- */

/* An allocation: address space without rights (a host that dereferences crashes), backing memory,
 * shadow bytes, and per 4-byte word who touched it last. */
struct Alloc {
    uint64_t base, end;       /* device addresses; redzones lie outside */
    uint8_t *data;            /* backing of base */
    uint8_t *shadow;          /* per byte: bit 0 written */
    struct GlobalWord *words; /* per 4 bytes: race.c (blocks) */
    void *order; /* order.c (streams): made by it with malloc or calloc, freed with the backing */
    Device *device;  /* NULL: host memory (pinned, registered) */
    uint64_t number; /* nth allocation, for messages */
    bool freed, managed, is_variable;
    const char *name; /* of a variable, or NULL */
};

/** NULL when the device's memory is used up. Memory is filled with 0xff and marked as not written.
 */
Alloc *memory_alloc(Device *d, uint64_t bytes, uint64_t align);
/** Pinned or registered host memory; device address = host address. */
Alloc *memory_register_host(void *host, uint64_t bytes);
void memory_free(Alloc *a);
/** The allocation that holds or held `address` (also freed ones), or NULL. */
Alloc *memory_find(uint64_t address);
/** The allocation nearest below or above, for messages. */
Alloc *memory_near(uint64_t address);
bool memory_can_access(const Device *from, const Alloc *a);
uint64_t memory_used(const Device *d), memory_total(const Device *d);

/* How one access of an operation that is not a kernel (copies, memset, library calls) is checked:
 * bounds, use after free, initialised (reads), stream order. Returns host memory, or NULL after a
 * finding. `what`: "source of cuMemcpyAsync". */
uint8_t *memory_access(uint64_t address, uint64_t bytes, bool write, Device *d, uint32_t op,
                       const char *what);

/** Access by a kernel, one lane: called by op_mem.c for all that its fast path does not settle.
 * Reports and returns NULL. */
uint8_t *memory_lane(Warp *w, const Inst *i, int lane, uint64_t address, uint32_t size, bool write);

/* --- order between streams and blocks: order.c
 * ------------------------------------------------------- */

/** Vector clocks. Every queued operation, event and host wait has one; op numbers name operations.
 * Called for ranges of device memory that operation `op` (and block, for kernels) touches. */
void order_access(Alloc *a, uint64_t offset, uint64_t bytes, bool write, uint32_t op, Warp *w,
                  const Inst *i, int lane);

/* --- devices, options: options.c, device.c
 * ------------------------------------------------------------ */

typedef struct {
    int devices;                             /* VGPU_DEVICES, default 1 */
    int capability;                          /* VGPU_SM=80 */
    uint64_t memory;                         /* VGPU_MEMORY bytes with K, M, G; default 4G */
    uint64_t seed;                           /* VGPU_SEED, default 1 */
    int threads;                             /* VGPU_THREADS, default the cores */
    bool lazy, eager;                        /* VGPU_ORDER=random|lazy|eager */
    bool uninit, race, order, blocks, leaks; /* VGPU_CHECK=all|none|list of these names */
    const char *fail;                        /* VGPU_FAIL=cuMemAlloc:3,cuLaunchKernel:1 */
    const char *report;                      /* VGPU_REPORT=FILE */
    bool table;                              /* VGPU_TABLE=1: readable counters on stderr at exit */
    uint64_t budget; /* VGPU_BUDGET: warp instructions of a launch before it is called hung */
    bool keep_going; /* VGPU_KEEP=1: findings do not break the context */
    bool trace;      /* VGPU_TRACE=1: every driver call on stderr */
} Options;
const Options *options(void);

struct Device {
    int ordinal;
    uint64_t base, bytes, used; /* of its address range */
    bool broken;                /* sticky error */
    int error;
    bool peers[16];
};
Device *device_get(int ordinal);

/** Pseudo-random, all from the seed. */
uint64_t random_next(uint64_t *state);

/* --- findings and counters: report.c
 * ------------------------------------------------------------------ */

typedef enum {
    FINDING_BOUNDS,
    FINDING_FREED,
    FINDING_MISALIGNED,
    FINDING_UNINIT,
    FINDING_SHARED_RACE,
    FINDING_BLOCK_RACE,
    FINDING_ORDER,
    FINDING_BARRIER,
    FINDING_DEADLOCK,
    FINDING_HANG,
    FINDING_WARP_SYNC,
    FINDING_LEAK,
    FINDING_LAUNCH,
    FINDING_ASSERT,
    FINDING_TRAP,
    FINDING_API,
    FINDING_LIBRARY
} FindingKind;

/** A finding inside a kernel: prints kind, kernel, source line (.loc), block and thread, PTX line
 * and the allocation near `address` (0: none); once per site. The process then ends with status 86
 * at exit, whatever it returns. Fatal kinds stop the grid. */
void finding_kernel(FindingKind kind, Warp *w, const Inst *i, int lane, uint64_t address,
                    const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/** A finding outside of kernels. */
void finding(FindingKind kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint64_t finding_count(void);
/** For tests of the checkers: the number of findings so far, which are forgotten. */
uint64_t findings_take(void);

/* Per kernel name; one per worker, added up after each launch. */
typedef struct Counters {
    uint64_t launches, blocks, warp_insts, lane_insts,
        kinds[COUNT_KINDS]; /* kinds: warp instructions */
    uint64_t load_requests, store_requests, load_sectors,
        store_sectors;                          /* global; sectors of 32 bytes */
    uint64_t load_bytes, store_bytes;           /* that lanes asked for */
    uint64_t shared_requests, shared_conflicts; /* extra passes over banks */
    uint64_t divergent_branches, branches, barriers, atomics;
    uint64_t ns, cpu_ns; /* wall clock; of all workers together */
} Counters;
void counters_add(const Function *f, const Counters *c);

#endif
