/* test_driver_random.c: random programs on four streams (two that wait for nobody, one that takes
 * part in the rules of the default stream, and that one). A model that knows nothing of clocks
 * says, from the sets of operations that come before each, whether two of them touch a buffer
 * without an order. The driver must have a finding for exactly those programs, and the others must
 * compute what their order of calls does. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_driver.h"

#include <string.h>

enum { STREAMS = 4, BLOCKING = 2, DEFAULT = 3, BUFFERS = 6, EVENTS = 4, STEPS = 40, WORDS = 70 };

typedef enum { ADD, RECORD, WAIT, SYNC, SYNC_ALL } Kind;

typedef struct {
    Kind kind;
    int stream, to, from, event;
} Step;

/* Sets of ADDs, as bits. */
typedef struct {
    uint64_t stream[STREAMS], event[EVENTS], host;
    uint64_t writes[BUFFERS], reads[BUFFERS];
    int n;
    bool recorded[EVENTS], ordered;
} Model;

static uint64_t rolled(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* --- the model ------------------------------------------------------------------------------- */

/** What comes before the next operation of a stream. */
static uint64_t before(const Model *m, int s)
{
    uint64_t set = m->stream[s] | m->host;
    if (s == BLOCKING || s == DEFAULT)
        set |= m->stream[BLOCKING] | m->stream[DEFAULT];
    return set;
}

static uint64_t conflicts(const Model *m, int to, int from)
{
    return m->writes[to] | m->reads[to] | m->writes[from];
}

static void apply(Model *m, const Step *t)
{
    int s = t->stream;
    uint64_t set = before(m, s);
    switch (t->kind) {
    case ADD:
        if (conflicts(m, t->to, t->from) & ~set)
            m->ordered = false;
        m->stream[s] = set | (uint64_t)1 << m->n;
        m->writes[t->to] |= (uint64_t)1 << m->n;
        m->reads[t->from] |= (uint64_t)1 << m->n;
        m->n++;
        break;
    case RECORD:
        m->stream[s] = m->event[t->event] = set;
        m->recorded[t->event] = true;
        break;
    case WAIT: /* for an event that was never recorded: nothing is queued */
        if (m->recorded[t->event])
            m->stream[s] = set | m->event[t->event];
        break;
    case SYNC:
        m->host |= m->stream[s];
        break;
    case SYNC_ALL:
        for (int k = 0; k < STREAMS; k++)
            m->host |= m->stream[k];
        break;
    }
}

/* --- programs -------------------------------------------------------------------------------- */

typedef struct {
    Step at[STEPS * 8];
    int n;
} Program;

static void put(Program *p, Model *m, Step t)
{
    p->at[p->n++] = t;
    apply(m, &t);
}

/** Waits for what the ADD needs; each is forgotten with a chance of 1 in `forget` (0: none). */
static void put_waits(Program *p, Model *m, const Step *add, uint64_t *random, uint64_t forget)
{
    for (int s = 0; s < STREAMS; s++) {
        uint64_t missing = conflicts(m, add->to, add->from) & ~before(m, add->stream);
        if (!(missing & m->stream[s]) || (forget && rolled(random, forget) == 0))
            continue;
        int e = (int)rolled(random, EVENTS);
        put(p, m, (Step){RECORD, s, 0, 0, e});
        put(p, m, (Step){WAIT, add->stream, 0, 0, e});
    }
}

/** The program of a seed, and whether all of it is ordered. */
static bool make_program(uint64_t seed, Program *p)
{
    uint64_t random = seed * 77 + 1;
    uint64_t forget = seed % 3 ? 5 * (seed % 3) : 0;
    Model m = {.ordered = true};
    p->n = 0;
    for (int k = 0; k < STEPS; k++) {
        Step t = {ADD, (int)rolled(&random, STREAMS), (int)rolled(&random, BUFFERS),
                  (int)rolled(&random, BUFFERS), (int)rolled(&random, EVENTS)};
        uint64_t what = rolled(&random, 20);
        if (what < 4)
            t.kind = what < 2 ? RECORD : what == 2 ? WAIT : SYNC;
        else if (what == 4 && k % 8 == 0)
            t.kind = SYNC_ALL;
        else
            put_waits(p, &m, &t, &random, forget);
        put(p, &m, t);
    }
    return m.ordered;
}

static unsigned expected[BUFFERS];

static void run_step(const Step *t, int k, const Kernels *kernels, const CUstream *streams,
                     const CUevent *events, const CUdeviceptr *buffers)
{
    switch (t->kind) {
    case ADD:
        launch_add(kernels, buffers[t->to], buffers[t->from], WORDS, (unsigned)k,
                   streams[t->stream]);
        expected[t->to] = expected[t->from] + (unsigned)k;
        break;
    case RECORD:
        OK(cuEventRecord(events[t->event], streams[t->stream]));
        break;
    case WAIT:
        OK(cuStreamWaitEvent(streams[t->stream], events[t->event], 0));
        break;
    case SYNC:
        OK(cuStreamSynchronize(streams[t->stream]));
        break;
    case SYNC_ALL:
        OK(cuCtxSynchronize());
        break;
    }
}

/* The seed is in the environment: this runs in a child. */
static void run_program(void)
{
    const char *seed = getenv("TEST_SEED");
    Program p;
    bool ordered = make_program(seed ? strtoull(seed, NULL, 10) : 0, &p);
    CUstream streams[STREAMS] = {0};
    CUevent events[EVENTS];
    CUdeviceptr buffers[BUFFERS];
    begin();
    Kernels k = load_kernels();
    for (int s = 0; s < DEFAULT; s++)
        OK(cuStreamCreate(&streams[s], s == BLOCKING ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    for (int e = 0; e < EVENTS; e++)
        OK(cuEventCreate(&events[e], CU_EVENT_DISABLE_TIMING));
    for (int b = 0; b < BUFFERS; b++) {
        buffers[b] = device_words(WORDS);
        launch_set(&k, buffers[b], WORDS, (unsigned)b, NULL);
        expected[b] = (unsigned)b;
    }
    OK(cuCtxSynchronize());
    for (int n = 0; n < p.n; n++)
        run_step(&p.at[n], n, &k, streams, events, buffers);
    OK(cuCtxSynchronize());
    for (int b = 0; b < BUFFERS; b++) {
        HOLDS(!ordered || words_are(buffers[b], WORDS, expected[b]));
        OK(cuMemFree(buffers[b]));
    }
    for (int e = 0; e < EVENTS; e++)
        OK(cuEventDestroy(events[e]));
    for (int s = 0; s < DEFAULT; s++)
        OK(cuStreamDestroy(streams[s]));
    OK(cuModuleUnload(k.module));
    end();
}

bool random_programs(int from, int to, int *ordered)
{
    static const char *const orders[] = {"random", "lazy", "eager"};
    bool good = true;
    *ordered = 0;
    for (int seed = from; seed < to; seed++) {
        Program p;
        char env[100];
        bool clean = make_program((uint64_t)seed, &p);
        Case c = {"random program", run_program, clean ? NULL : "error[order]", NULL, false};
        *ordered += clean;
        snprintf(env, sizeof env, "TEST_SEED=%d VGPU_SEED=%d VGPU_ORDER=%s", seed, seed,
                 orders[seed / 3 % 3]);
        good &= run_once(&c, env);
    }
    return good;
}
