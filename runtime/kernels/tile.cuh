/* tile.cuh: C(m, n) = sum over k of A(m, k) B(k, n), one tile of BM x BN a block, for CUDA. Both
 * operands go through shared memory in stages of 64 bytes along k, copied while earlier stages are
 * multiplied. Products are summed in the order of k, in f32 (f64 for f64).
 *
 * A kernel says what surrounds the tile by a struct of hooks:
 *   void a(int m, int k, T *to) const    puts 16 bytes of A into shared memory: neighbours along k
 *                                        from (m, k) on if A_K, else along m; 0 outside of A. By
 *                                        tn_copy, which does not wait, or as a tn_tile_vector
 *   void b(int n, int k, T *to) const    the same of B: neighbours along k if B_K, else along n
 *   void store(int m, int n, const S (&x)[W]) const
 *                                        takes W neighbours along n; N is a multiple of W
 *   void sum(int i, S x) const           with SUM 1 or 2: takes the sum over k of row i of A, or of
 *                                        column i of B
 *   T, S, W                              element of a and b, of sums (float, double), width
 * tn_tile multiplies and adds (256 threads), tn_tensor_tile has the tensor cores do it (256 threads
 * for 128 x 128, 128 for 64 x 64; from sm_80 on; W <= 2 unless B_K). MATH says what elements are:
 * 0 as they are, 1 TF32, 2 bf16, 3 f16. Shared memory: 3 stages of (BM + BN) * 64 bytes.
 *
 * Bank conflicts: there are none. A row of a stage is 4 chunks of 16 bytes (neighbours along k), at
 * chunk c ^ row / 2 % 4; or the chunks of one k (neighbours along m or n), at c ^ a number made of k.
 * So the 8 chunks that are read at once lie in 8 groups of banks. Rows of B stand in the order in
 * which the cores read them. SPDX-License-Identifier: MIT */

/*@ copy: */
template <int BYTES>
static __device__ __forceinline__ void tn_copy(void *to, const void *from, int valid)
{
    /* 16 bytes from global to shared memory in pieces of BYTES (4, 8, 16), which `from` is aligned
     * to; behind the first `valid` bytes there are none: those become 0 */
#if __CUDA_ARCH__ >= 800
    const unsigned s = (unsigned)__cvta_generic_to_shared(to);
#pragma unroll
    for (int i = 0; i < 16; i += BYTES) {
        const char *const p = (const char *)from + (i < valid ? i : 0);
        const int n = i < valid ? BYTES : 0;
        if (BYTES == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(s), "l"(p), "r"(n));
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(s + i), "l"(p),
                         "n"(BYTES), "r"(n));
    }
#else
#pragma unroll
    for (int i = 0; i < 4; i++)
        ((unsigned *)to)[i] = 4 * i < valid ? ((const unsigned *)from)[i] : 0;
#endif
}

/*@ tile_vector: */
template <class T, int N> struct __align__(N * sizeof(T)) tn_tile_vector {
    T v[N];
};

/*@ tile_commit: */
static __device__ __forceinline__ void tn_tile_commit()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

/*@ tile_wait: */
template <int LATER> static __device__ __forceinline__ void tn_tile_wait()
{
    /* all copies but those of the LATER stages that were begun last have arrived */
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
    __syncthreads();
}

/*@ tile_row: */
template <bool B, bool MMA> static __device__ __forceinline__ int tn_tile_row(int row)
{
    /* where a row along k stands in its stage. The cores give each thread 4 neighbours along n: rows
     * of B that are read at once are pairs of every fourth (MMA), or every fourth */
    if (!B)
        return row;
    if (MMA)
        return (row & ~15) | (row >> 1 & 1) << 3 | (row >> 2 & 3) << 1 | (row & 1);
    return (row & ~63) | (row & 3) << 4 | ((row >> 2 & 15) ^ (row & 1));
}

/*@ tile_chunk: */
template <class T, int ROWS, bool ALONG_K>
static __device__ __forceinline__ int tn_tile_chunk(int row, int k)
{
    /* place of the chunk of element (row, k); row as it stands */
    const int each = 16 / sizeof(T);
    if (ALONG_K)
        return row * 4 + (k / each ^ (row >> 1 & 3));
    const int turn = sizeof(T) == 2 ? k & 7 : sizeof(T) == 4 ? (k & 3) * 2 : row / each >> 3 & 1;
    return k * (ROWS / each) + (row / each ^ turn);
}

/*@ tile_matrices: */
template <bool TURN>
static __device__ __forceinline__ void tn_tile_matrices(unsigned (&r)[4], const void *p)
{
    /* four matrices of 8 rows of 16 bytes: lane l names a row of matrix l / 8 */
    const unsigned s = (unsigned)__cvta_generic_to_shared(p);
    if (TURN)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(s));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(s));
}

/*@ tile_round: */
template <int MATH> static __device__ __forceinline__ void tn_tile_round(unsigned &x)
{
    /* f32 to TF32, to nearest */
    if (MATH == 1)
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x) : "f"(__uint_as_float(x)));
}

/*@ tile_mma: */
template <int MATH>
static __device__ __forceinline__ void tn_tile_mma(float (&c)[4], const unsigned (&a)[4],
                                                   unsigned b0, unsigned b1)
{
#define TN_MMA(shape, type)                                                                        \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." type "." type                           \
                 ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                      \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
    if (MATH == 1)
        TN_MMA("m16n8k8", "tf32");
    else if (MATH == 2)
        TN_MMA("m16n8k16", "bf16");
    else
        TN_MMA("m16n8k16", "f16");
#undef TN_MMA
}

/*@ tile_fragment: */
template <class T, int MATH, int ROWS, bool ALONG_K, bool B>
static __device__ __forceinline__ void tn_tile_fragment(unsigned (&r)[4], const T *s, int row, int k)
{
    /* 16 rows of A from `row` on, or 2 times 8 rows of B, 32 bytes along k from k on. Registers: A
     * (rows 0-7, first k) (8-15, first k) (0-7, last k) (8-15, last k), B both k of rows 0-7, then of
     * rows 8-15 */
    const int lane = threadIdx.x % 32, each = 16 / sizeof(T);
    if (ALONG_K) {
        const int at = row + lane % 8 + (B ? lane / 16 : lane / 8 % 2) * 8;
        const int half = B ? lane / 8 % 2 : lane / 16;
        tn_tile_matrices<false>(
            r, s + tn_tile_chunk<T, ROWS, true>(at, k + half * each) * each);
    } else if (sizeof(T) == 2) {
        const int at = k + lane % 8 + (B ? lane / 8 % 2 : lane / 16) * 8;
        const int half = B ? lane / 16 : lane / 8 % 2;
        tn_tile_matrices<true>(r,
                               s + tn_tile_chunk<T, ROWS, false>(row + half * 8, at) * each);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int m = row + lane / 4 + (B ? i / 2 : i % 2) * 8;
            const int kk = k + lane % 4 + (B ? i % 2 : i / 2) * 4;
            const T *const p = s + tn_tile_chunk<T, ROWS, false>(m, kk) * each + m % each;
            r[i] = *(const unsigned *)p;
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
        tn_tile_round<MATH>(r[i]);
}

/*@ tile_put: */
template <int V, class H, class S>
static __device__ __forceinline__ void tn_tile_put(const H &h, int m, int n, int M, int N,
                                                   const S (&x)[V])
{
    /* V sums next to each other go to the store hook */
    const int W = H::W < V ? H::W : V;
#pragma unroll
    for (int i = 0; i < V; i += W) {
        S y[W];
#pragma unroll
        for (int j = 0; j < W; j++)
            y[j] = x[i + j];
        if (m < M && n + i < N)
            h.store(m, n + i, y);
    }
}

/*@ tile_float: */
template <class S, int MATH, class T> static __device__ __forceinline__ S tn_tile_float(T x)
{
    /* an element as the number that is summed */
    if (MATH == 2)
        return __uint_as_float((unsigned)x << 16);
    if (MATH == 3) {
        float y;
        asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"((unsigned short)x));
        return y;
    }
    return x;
}

/*@ tile_fma: tn_tile_vector( tn_tile_row( tn_tile_chunk( tn_tile_float( tn_tile_put( */
template <class H, int MATH, int BM, int BN, bool A_K, bool B_K> struct tn_tile_fma {
    /* every thread makes R x R results: 4 rows of each 16 * 4 by 4 columns of each 16 * 4 */
    enum { R = BM == 128 ? 8 : 4, THREADS = 256, MMA = 0 };
    typedef typename H::T T;
    typedef typename H::S S;
    S c[R][R];

    __device__ __forceinline__ tn_tile_fma()
    {
#pragma unroll
        for (int i = 0; i < R * R; i++)
            c[i / R][i % R] = 0;
    }

    /* N neighbours from element i of the thread's share, k on */
    template <int ROWS, bool ALONG_K, bool B, int N>
    static __device__ __forceinline__ void read(const T *s, int lane, int i, int k, S *to)
    {
        const int each = 16 / sizeof(T), row = lane * 4 + i % 4 + i / 4 * 64;
        const int at = ALONG_K ? tn_tile_row<B, false>(row) : row;
        const T *const p = s + tn_tile_chunk<T, ROWS, ALONG_K>(at, k) * each;
        const tn_tile_vector<T, N> v =
            *(const tn_tile_vector<T, N> *)(p + (ALONG_K ? k % each : row % each));
#pragma unroll
        for (int q = 0; q < N; q++)
            to[q] = tn_tile_float<S, MATH>(v.v[q]);
    }

    enum { EACH = 16 / sizeof(T), G = EACH < 4 ? EACH : 4 };

    static __device__ __forceinline__ void read_turned(const T *a, int ty, int i, int k,
                                                       S (&x)[R][EACH])
    {
#pragma unroll
        for (int q = 0; q < EACH; q++) {
            S y[G];
            read<BM, A_K, false, G>(a, ty, i, k + q, y);
#pragma unroll
            for (int g = 0; g < G; g++)
                x[i + g][q] = y[g];
        }
    }

    __device__ __forceinline__ void multiply(const T *a, const T *b)
    {
        const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll 1
        for (int k = 0; k < 4 * EACH; k += EACH) {
            S x[R][EACH];
#pragma unroll
            for (int i = 0; i < R; i += A_K ? 1 : G) {
                if (A_K)
                    read<BM, A_K, false, EACH>(a, ty, i, k, x[i]);
                else
                    read_turned(a, ty, i, k, x);
            }
            /* B by columns (each with all k) or by k (each with neighbouring columns), as it lies */
#pragma unroll
            for (int e = 0; e < R * EACH; e += B_K ? EACH : G) {
                const int j = B_K ? e / EACH : e % R, q = B_K ? 0 : e / R;
                S y[B_K ? EACH : G];
                read<BN, B_K, true, B_K ? EACH : G>(b, tx, j, k + q, y);
#pragma unroll
                for (int g = 0; g < (B_K ? EACH : G); g++) {
#pragma unroll
                    for (int i = 0; i < R; i++)
                        c[i][B_K ? j : j + g] =
                            fma(x[i][B_K ? g : q], y[g], c[i][B_K ? j : j + g]);
                }
            }
        }
    }

    /* 64 columns of row i, one by one: threads take neighbours, which others have made */
    __device__ __forceinline__ void store_single(const H &h, int m, int n0, int M, int N, int i, int j) const
    {
        const int tx = threadIdx.x % 16;
#pragma unroll
        for (int q = 0; q < 4; q++) {
            S x[H::W] = {0}; /* of one; others do not come here */
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const S y = __shfl_sync(~0u, c[i][j + e], q * 4 + tx / 4, 16);
                x[0] = tx % 4 == e ? y : x[0];
            }
            tn_tile_put<H::W>(h, m, n0 + j * 16 + q * 16 + tx, M, N, x);
        }
    }

    __device__ __forceinline__ void store(const H &h, int m0, int n0, int M, int N) const
    {
        const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
        for (int i = 0; i < R; i++) {
#pragma unroll
            for (int j = 0; j < R; j += 4) {
                if (H::W == 1) {
                    store_single(h, m0 + ty * 4 + i % 4 + i / 4 * 64, n0, M, N, i, j);
                    continue;
                }
                const S x[4] = {c[i][j], c[i][j + 1], c[i][j + 2], c[i][j + 3]};
                tn_tile_put<4>(h, m0 + ty * 4 + i % 4 + i / 4 * 64, n0 + tx * 4 + j * 16, M, N, x);
            }
        }
    }
};

/*@ tile_tensor: tn_tile_fragment( tn_tile_mma( tn_tile_put( */
template <class H, int MATH, int BM, int BN, bool A_K, bool B_K> struct tn_tile_tensor {
    /* warps of WM x WN results, in products of 16 x 8 */
    enum { WM = BM == 128 ? 64 : 32, WN = 32, THREADS = BM / WM * (BN / WN) * 32, MMA = 1 };
    typedef typename H::T T;
    float c[WM / 16][WN / 8][4];

    __device__ __forceinline__ tn_tile_tensor()
    {
#pragma unroll
        for (int i = 0; i < WM * WN / 32; i++)
            c[i / (WN / 2)][i / 4 % (WN / 8)][i % 4] = 0.0f;
    }

    static __device__ __forceinline__ int first_m() { return threadIdx.x / 32 / (BN / WN) * WM; }
    static __device__ __forceinline__ int first_n() { return threadIdx.x / 32 % (BN / WN) * WN; }

    __device__ __forceinline__ void multiply(const T *a, const T *b)
    {
        const int each = 16 / sizeof(T);
#pragma unroll
        for (int k = 0; k < 4 * each; k += 2 * each) {
            unsigned x[WM / 16][4], y[WN / 16][4];
#pragma unroll
            for (int i = 0; i < WM / 16; i++)
                tn_tile_fragment<T, MATH, BM, A_K, false>(x[i], a, first_m() + 16 * i, k);
#pragma unroll
            for (int j = 0; j < WN / 16; j++)
                tn_tile_fragment<T, MATH, BN, B_K, true>(y[j], b, first_n() + 16 * j, k);
#pragma unroll
            for (int i = 0; i < WM / 16; i++) {
#pragma unroll
                for (int j = 0; j < WN / 8; j++)
                    tn_tile_mma<MATH>(c[i][j], x[i], y[j / 2][j % 2 * 2], y[j / 2][j % 2 * 2 + 1]);
            }
        }
    }

    __device__ __forceinline__ void store(const H &h, int m0, int n0, int M, int N) const
    {
        const int lane = threadIdx.x % 32, t = lane % 4;
#pragma unroll
        for (int i = 0; i < WM / 8; i++) {
            const int m = m0 + first_m() + i / 2 * 16 + i % 2 * 8 + lane / 4, q = i % 2 * 2;
#pragma unroll
            for (int j = 0; j < WN / 8; j += 2) {
                /* columns as tn_tile_row deals them out, or those of a product */
                enum { V = B_K ? 4 : 2 };
#pragma unroll
                for (int half = 0; half < 4 / V; half++) {
                    const int n = n0 + first_n() + 8 * j + (B_K ? 4 * t : 8 * half + 2 * t);
                    float x[V];
#pragma unroll
                    for (int e = 0; e < V; e++)
                        x[e] = c[i / 2][j + (B_K ? e / 2 : half)][q + e % 2];
                    tn_tile_put<V>(h, m, n, M, N, x);
                }
            }
        }
    }
};

/*@ tile_fill: tn_tile_row( tn_tile_chunk( */
template <class T, bool MMA, int ROWS, bool ALONG_K, bool B, int THREADS, class H>
static __device__ __forceinline__ void tn_tile_fill(const H &h, T *s, int row0, int k0)
{
    /* one operand's part of a stage */
    const int each = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < ROWS * 4 / THREADS; i++) {
        const int e = threadIdx.x + i * THREADS;
        const int row = ALONG_K ? e / 4 : e % (ROWS / each) * each;
        const int k = ALONG_K ? e % 4 * each : e / (ROWS / each);
        const int at = ALONG_K ? tn_tile_row<B, MMA>(row) : row;
        T *const to = s + tn_tile_chunk<T, ROWS, ALONG_K>(at, k) * each;
        if (B)
            h.b(row0 + row, k0 + k, to);
        else
            h.a(row0 + row, k0 + k, to);
    }
}

/*@ tile_sum: tn_tile_vector( tn_tile_row( tn_tile_chunk( tn_tile_float( */
template <class S, class T, int MATH, bool MMA, int ROWS, bool ALONG_K, bool B>
static __device__ __forceinline__ S tn_tile_sum(const T *s, int row)
{
    /* the sum of a row of a stage: chunk by chunk, or with other rows' lanes beside it */
    enum { EACH = 16 / sizeof(T), N = ALONG_K ? EACH : 1 };
    const int at = ALONG_K ? tn_tile_row<B, MMA>(row) : row;
    S sum = 0;
#pragma unroll
    for (int k = 0; k < 4 * EACH; k += N) {
        const T *const p = s + tn_tile_chunk<T, ROWS, ALONG_K>(at, k) * EACH + (ALONG_K ? 0 : at % EACH);
        const tn_tile_vector<T, N> v = *(const tn_tile_vector<T, N> *)p;
#pragma unroll
        for (int q = 0; q < N; q++)
            sum += tn_tile_float<S, MATH>(v.v[q]);
    }
    return sum;
}

/*@ tile_give: */
struct tn_tile_give { /* hooks of kernels without such sums have no member for them */
    template <class H, class S>
    __device__ __forceinline__ auto operator()(const H &h, int i, S x, int) -> decltype(h.sum(i, x))
    {
        h.sum(i, x);
    }
    template <class H, class S> __device__ __forceinline__ void operator()(const H &, int, S, long) {}
};

/*@ tile_run: tn_tile_fill( tn_tile_commit( tn_tile_wait( tn_tile_sum( tn_tile_give( */
template <class CORE, int BM, int BN, bool A_K, bool B_K, int SUM, int MATH, class H>
static __device__ __forceinline__ void tn_tile_run(const H &h, int m0, int n0, int M, int N, int K)
{
    typedef typename H::T T;
    enum { STAGES = 3, CHUNKS = (BM + BN) * 4, BK = 64 / sizeof(T), THREADS = CORE::THREADS };
    __shared__ uint4 shared[STAGES * CHUNKS];
    CORE core;
    typename H::S sum = 0; /* of the thread's row of A (SUM 1), column of B (2) */
    const bool sums = SUM && (SUM == 1 ? n0 : m0) == 0 && threadIdx.x < (SUM == 1 ? BM : BN);
    auto fill = [&](int stage, int k0) {
        T *const s = (T *)(shared + stage * CHUNKS);
        tn_tile_fill<T, CORE::MMA, BM, A_K, false, THREADS>(h, s, m0, k0);
        tn_tile_fill<T, CORE::MMA, BN, B_K, true, THREADS>(h, s + BM * BK, n0, k0);
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        if (i * BK < K)
            fill(i, i * BK);
        tn_tile_commit();
    }
    int stage = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        tn_tile_wait<STAGES - 2>(); /* nobody reads the stage before this one any more */
        if (k0 + (STAGES - 1) * BK < K)
            fill(stage == 0 ? STAGES - 1 : stage - 1, k0 + (STAGES - 1) * BK);
        tn_tile_commit();
        const T *const s = (const T *)(shared + stage * CHUNKS);
        core.multiply(s, s + BM * BK);
        if (SUM == 1 && sums)
            sum += tn_tile_sum<typename H::S, T, MATH, CORE::MMA, BM, A_K, false>(s, threadIdx.x);
        if (SUM == 2 && sums)
            sum += tn_tile_sum<typename H::S, T, MATH, CORE::MMA, BN, B_K, true>(s + BM * BK, threadIdx.x);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    core.store(h, m0, n0, M, N);
    const int at = (SUM == 1 ? m0 : n0) + threadIdx.x;
    if (sums && at < (SUM == 1 ? M : N))
        tn_tile_give()(h, at, sum, 0);
}

/*@ tile: tn_tile_run( tn_tile_fma */
template <int MATH, int BM, int BN, bool A_K, bool B_K, int SUM = 0, class H>
static __device__ __forceinline__ void tn_tile(const H &h, int m0, int n0, int M, int N, int K)
{
    tn_tile_run<tn_tile_fma<H, MATH, BM, BN, A_K, B_K>, BM, BN, A_K, B_K, SUM, MATH>(h, m0, n0, M, N, K);
}

/*@ tensor_tile: tn_tile_run( tn_tile_tensor */
template <int MATH, int BM, int BN, bool A_K, bool B_K, int SUM = 0, class H>
static __device__ __forceinline__ void tn_tensor_tile(const H &h, int m0, int n0, int M, int N, int K)
{
#if __CUDA_ARCH__ >= 800 /* kernels for older ones are never called */
    tn_tile_run<tn_tile_tensor<H, MATH, BM, BN, A_K, B_K>, BM, BN, A_K, B_K, SUM, MATH>(h, m0, n0, M, N, K);
#endif
}
