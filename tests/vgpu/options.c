/* options.c: the VGPU_ variables of the environment. A variable that says nothing sensible ends the
 * process: a test must not run under other conditions than it asked for. SPDX-License-Identifier:
 * MIT */
#include "tests/vgpu/vgpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void bad(const char *name, const char *value, const char *expected)
{
    fprintf(stderr, "vgpu: %s=%s: expected %s\n", name, value, expected);
    fflush(NULL);
    _exit(86);
}

static const char *text_of(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static uint64_t number_of(const char *name, uint64_t otherwise, uint64_t low, uint64_t high)
{
    const char *value = text_of(name);
    if (!value)
        return otherwise;
    char *end;
    unsigned long long n = strtoull(value, &end, 0);
    unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift != 0;
    if (*end || *value == '-' || n > high >> shift || n << shift < low) {
        char expected[80];
        snprintf(expected, sizeof expected, "a number from %llu to %llu", (unsigned long long)low,
                 (unsigned long long)high);
        bad(name, value, expected);
    }
    return n << shift;
}

static void read_order(Options *o)
{
    const char *value = text_of("VGPU_ORDER");
    if (!value || !strcmp(value, "random"))
        return;
    o->lazy = !strcmp(value, "lazy");
    o->eager = !strcmp(value, "eager");
    if (!o->lazy && !o->eager)
        bad("VGPU_ORDER", value, "random, lazy or eager");
}

static bool *check_of(Options *o, const char *name, size_t n)
{
    static const char *const names[] = {"uninit", "race", "order", "blocks", "leaks"};
    bool *const fields[] = {&o->uninit, &o->race, &o->order, &o->blocks, &o->leaks};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strlen(names[k]) == n && !memcmp(names[k], name, n))
            return fields[k];
    return NULL;
}

static void read_checks(Options *o)
{
    const char *value = text_of("VGPU_CHECK");
    bool all = !value || !strcmp(value, "all");
    o->uninit = o->race = o->order = o->blocks = o->leaks = all;
    if (all || !strcmp(value, "none"))
        return;
    for (const char *at = value; at;) {
        const char *comma = strchr(at, ',');
        bool *check = check_of(o, at, comma ? (size_t)(comma - at) : strlen(at));
        if (!check)
            bad("VGPU_CHECK", value, "all, none or a list of uninit, race, order, blocks, leaks");
        else
            *check = true;
        at = comma ? comma + 1 : NULL;
    }
}

static void read_capability(Options *o)
{
    static const int known[] = {75, 80, 86, 89, 90, 100, 120};
    o->capability = (int)number_of("VGPU_SM", 80, 0, 1000);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (known[k] == o->capability)
            return;
    bad("VGPU_SM", getenv("VGPU_SM"), "75, 80, 86, 89, 90, 100 or 120");
}

/* The leading numbers of CUDA_VISIBLE_DEVICES that devices have; the devices are alike, so which
 * they are does not matter. */
static int visible_devices(int devices)
{
    const char *value = getenv("CUDA_VISIBLE_DEVICES");
    int n = 0;
    if (!value)
        return devices;
    for (const char *at = value; *at && n < devices; n++) {
        char *end;
        long k = strtol(at, &end, 10);
        if (end == at || k < 0 || k >= devices || (*end && *end != ','))
            return n;
        at = *end ? end + 1 : end;
    }
    return n;
}

static Options made;

static void make(void)
{
    Options *o = &made;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    o->devices = visible_devices((int)number_of("VGPU_DEVICES", 1, 0, 16));
    read_capability(o);
    o->memory = number_of("VGPU_MEMORY", (uint64_t)4 << 30, 1 << 20, (uint64_t)64 << 30);
    o->seed = number_of("VGPU_SEED", 1, 0, UINT64_MAX);
    o->threads = (int)number_of("VGPU_THREADS", cores > 0 ? (uint64_t)cores : 1, 1, 256);
    read_order(o);
    read_checks(o);
    o->fail = text_of("VGPU_FAIL");
    o->report = text_of("VGPU_REPORT");
    o->table = number_of("VGPU_TABLE", 0, 0, 1) != 0;
    o->budget = number_of("VGPU_BUDGET", (uint64_t)20000 * 1000 * 1000, 1, UINT64_MAX);
    o->keep_going = number_of("VGPU_KEEP", 0, 0, 1) != 0;
    o->trace = number_of("VGPU_TRACE", 0, 0, 1) != 0;
}

const Options *options(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
    return &made;
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
