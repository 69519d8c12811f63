/* test_driver_graph.c: graphs, made by hand and captured. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_driver.h"

enum { N = 500 };

typedef struct {
    Kernels k;
    CUstream a, b;
    CUdeviceptr p, q, r;
    CUevent fork, join;
    CUgraph g;
    CUgraphExec e;
} Set;

static Set start(void)
{
    Set t = {0};
    begin();
    t.k = load_kernels();
    OK(cuStreamCreate(&t.a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&t.b, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&t.fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&t.join, CU_EVENT_DISABLE_TIMING));
    t.p = device_words(N);
    t.q = device_words(N);
    t.r = device_words(N);
    launch_set(&t.k, t.p, N, 0, t.a);
    launch_set(&t.k, t.q, N, 0, t.a);
    launch_set(&t.k, t.r, N, 0, t.a);
    OK(cuStreamSynchronize(t.a));
    return t;
}

static void finish(Set *t)
{
    OK(cuCtxSynchronize());
    if (t->e)
        OK(cuGraphExecDestroy(t->e));
    if (t->g)
        OK(cuGraphDestroy(t->g));
    OK(cuMemFree(t->p));
    OK(cuMemFree(t->q));
    OK(cuMemFree(t->r));
    OK(cuEventDestroy(t->fork));
    OK(cuEventDestroy(t->join));
    OK(cuStreamDestroy(t->a));
    OK(cuStreamDestroy(t->b));
    OK(cuModuleUnload(t->k.module));
    end();
}

/* q = p + 1 and r = p + 2 beside each other, then p = q + 3 after both. */
static void capture(Set *t, bool join)
{
    OK(cuStreamBeginCapture(t->a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuEventRecord(t->fork, t->a));
    OK(cuStreamWaitEvent(t->b, t->fork, 0));
    launch_add(&t->k, t->q, t->p, N, 1, t->a);
    launch_add(&t->k, t->r, t->p, N, 2, t->b);
    if (join) {
        OK(cuEventRecord(t->join, t->b));
        OK(cuStreamWaitEvent(t->a, t->join, 0));
    }
    launch_add(&t->k, t->p, t->q, N, 3, t->a);
}

static void captured(void)
{
    Set t = start();
    CUstreamCaptureStatus status;
    size_t n = 0;
    capture(&t, true);
    OK(cuStreamIsCapturing(t.b, &status));
    HOLDS(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cuStreamEndCapture(t.a, &t.g));
    OK(cuStreamIsCapturing(t.b, &status));
    HOLDS(status == CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cuGraphGetNodes(t.g, NULL, &n));
    HOLDS(n == 3);
    OK(cuGraphInstantiate(&t.e, t.g, 0));
    for (int k = 0; k < 3; k++)
        OK(cuGraphLaunch(t.e, t.a));
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.p, N, 12) && words_are(t.r, N, 10));
    finish(&t);
}

static void launched_on_two_streams(void)
{
    Set t = start();
    capture(&t, true);
    OK(cuStreamEndCapture(t.a, &t.g));
    OK(cuGraphInstantiate(&t.e, t.g, 0));
    OK(cuGraphLaunch(t.e, t.a)); /* launches of one graph do not overlap */
    OK(cuGraphLaunch(t.e, t.b));
    OK(cuCtxSynchronize());
    HOLDS(words_are(t.p, N, 8));
    finish(&t);
}

static void graph_and_stream(void)
{
    Set t = start();
    capture(&t, true);
    OK(cuStreamEndCapture(t.a, &t.g));
    OK(cuGraphInstantiate(&t.e, t.g, 0));
    OK(cuGraphLaunch(t.e, t.a));
    launch_set(&t.k, t.r, N, 3, t.b); /* r is written by the graph */
    finish(&t);
}

static void not_joined(void)
{
    Set t = start();
    capture(&t, false);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(t.a, &t.g));
    HOLDS(t.g == NULL);
    finish(&t);
}

static void waits_in_capture(void)
{
    Set t = start();
    OK(cuStreamBeginCapture(t.a, CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_set(&t.k, t.p, N, 1, t.a);
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(t.a));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(t.a, &t.g));
    finish(&t);
}

static void allocates_in_capture(void)
{
    Set t = start();
    CUdeviceptr p;
    OK(cuStreamBeginCapture(t.a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&p, 4));
    GIVES(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(t.a, &t.g));
    finish(&t);
}

static CUgraphNode add_kernel(Set *t, CUdeviceptr q, CUdeviceptr p, unsigned v,
                              const CUgraphNode *deps, size_t n)
{
    unsigned words = N;
    void *args[] = {&q, &p, &words, &v};
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS params = {.func = t->k.add,
                                      .gridDimX = (N + 63) / 64,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 64,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .kernelParams = args};
    OK(cuGraphAddKernelNode(&node, t->g, deps, n, &params));
    return node;
}

static void by_hand(Set *t, bool all_edges)
{
    CUgraphNode nodes[4];
    CUcontext c;
    OK(cuCtxGetCurrent(&c));
    OK(cuGraphCreate(&t->g, 0));
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = t->p, .value = 5, .elementSize = 4, .width = N, .height = 1};
    OK(cuGraphAddMemsetNode(&nodes[0], t->g, NULL, 0, &set, c));
    nodes[1] = add_kernel(t, t->q, t->p, 1, nodes, 1);
    nodes[2] = add_kernel(t, t->r, t->p, 2, nodes, all_edges);
    nodes[3] = add_kernel(t, t->p, t->r, 3, nodes + 1, 1);
    OK(cuGraphAddDependencies(t->g, &nodes[2], &nodes[3], NULL, 1));
    OK(cuGraphInstantiate(&t->e, t->g, 0));
}

static void made_by_hand(void)
{
    Set t = start();
    by_hand(&t, true);
    OK(cuGraphLaunch(t.e, t.a));
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.p, N, 10) && words_are(t.q, N, 6) && words_are(t.r, N, 7));
    finish(&t);
}

static void missing_edge(void)
{
    Set t = start();
    by_hand(&t, false); /* r = p + 2 does not wait for the fill of p */
    OK(cuGraphLaunch(t.e, t.a));
    finish(&t);
}

static void changed(void)
{
    Set t = start();
    CUgraphNode node;
    unsigned n = N, v = 40;
    OK(cuGraphCreate(&t.g, 0));
    node = add_kernel(&t, t.q, t.p, 4, NULL, 0);
    OK(cuGraphInstantiate(&t.e, t.g, 0));
    OK(cuGraphLaunch(t.e, t.a));
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.q, N, 4));
    void *args[] = {&t.q, &t.p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS params = {t.k.add, (N + 63) / 64, 1,    1,    64,  1, 1,
                                      0,       args,          NULL, NULL, NULL};
    OK(cuGraphExecKernelNodeSetParams(t.e, node, &params));
    OK(cuGraphLaunch(t.e, t.a));
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.q, N, 40));
    CUgraph other, old = t.g;
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphCreate(&other, 0));
    t.g = other;
    add_kernel(&t, t.r, t.q, 2, NULL, 0);
    OK(cuGraphExecUpdate(t.e, other, &info));
    add_kernel(&t, t.r, t.q, 2, NULL, 0);
    GIVES(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate(t.e, other, &info));
    OK(cuGraphDestroy(old));
    OK(cuGraphLaunch(t.e, t.a));
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.r, N, 42));
    finish(&t);
}

static void children(void)
{
    Set t = start();
    CUgraph child, whole;
    CUgraphNode nodes[2];
    OK(cuGraphCreate(&child, 0));
    t.g = child;
    nodes[0] = add_kernel(&t, t.q, t.p, 1, NULL, 0);
    add_kernel(&t, t.p, t.q, 1, nodes, 1);
    OK(cuGraphCreate(&whole, 0));
    OK(cuGraphAddChildGraphNode(&nodes[0], whole, NULL, 0, child));
    OK(cuGraphAddChildGraphNode(&nodes[1], whole, nodes, 1, child));
    OK(cuGraphDestroy(child));
    t.g = whole;
    OK(cuGraphInstantiate(&t.e, whole, 0));
    OK(cuGraphLaunch(t.e, t.a));
    OK(cuStreamSynchronize(t.a));
    HOLDS(words_are(t.p, N, 4));
    finish(&t);
}

static void cycle(void)
{
    Set t = start();
    OK(cuGraphCreate(&t.g, 0));
    CUgraphNode a = add_kernel(&t, t.q, t.p, 1, NULL, 0);
    CUgraphNode b = add_kernel(&t, t.p, t.q, 1, &a, 1);
    OK(cuGraphAddDependencies(t.g, &b, &a, NULL, 1));
    GIVES(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiate(&t.e, t.g, 0));
    t.e = NULL;
    finish(&t);
}

const Case graph_cases[] = {
    {"captured", captured, NULL, NULL, true},
    {"launched on two streams", launched_on_two_streams, NULL, NULL, true},
    {"graph and stream", graph_and_stream, "error[order]", NULL, true},
    {"not joined", not_joined, "cuStreamEndCapture: work of another stream", NULL, false},
    {"waits in capture", waits_in_capture, "not possible while the stream captures", NULL, false},
    {"allocates in capture", allocates_in_capture, "cuMemAlloc: not possible", NULL, false},
    {"made by hand", made_by_hand, NULL, NULL, true},
    {"missing edge", missing_edge, "error[order]", NULL, true},
    {"changed", changed, NULL, NULL, false},
    {"children", children, NULL, NULL, true},
    {"cycle", cycle, "the graph has a cycle", NULL, false},
    {0},
};
