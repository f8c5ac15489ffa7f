// The longest path of a graph that `bench_path --dump` wrote, by Boost: a
// compressed sparse row graph and dag_shortest_paths with the comparison turned
// round, from one source before all chains. What it takes, the topological sort
// included, the making of the graph not; best of ROUNDS, of CPU time.
//
// usage: longest_path FILE [ROUNDS]     prints: boost NODES M_NODES_PER_S T_MAX
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dag_shortest_paths.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

struct arc_property {
    std::uint64_t w;
};
using graph = boost::compressed_sparse_row_graph<
    boost::directedS, boost::no_property, arc_property, boost::no_property,
    std::uint32_t, std::uint32_t>;

static double now_s()
{
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

int main(int argc, char **argv)
{
    std::FILE *f = argc > 1 ? std::fopen(argv[1], "rb") : nullptr;
    std::uint32_t n = 0;
    if (!f || std::fread(&n, sizeof(n), 1, f) != 1)
        return 1;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    std::vector<arc_property> weights;
    for (std::uint32_t i = 0; i < n; i++) {
        std::uint64_t w;
        std::uint32_t x;
        std::uint8_t first;
        if (std::fread(&w, sizeof(w), 1, f) != 1 ||
            std::fread(&x, sizeof(x), 1, f) != 1 ||
            std::fread(&first, 1, 1, f) != 1)
            return 1;
        // Vertex 0 is the source.
        edges.emplace_back(first ? 0 : i, i + 1);
        weights.push_back({w});
        if (x != UINT32_MAX) {
            edges.emplace_back(x + 1, i + 1);
            weights.push_back({0});
        }
    }
    std::fclose(f);
    graph g(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(),
            weights.begin(), n + 1);
    double best = 1e9;
    std::uint64_t t_max = 0;
    for (int round = argc > 2 ? std::atoi(argv[2]) : 3; round > 0; round--) {
        double begin = now_s();
        std::vector<std::uint64_t> est(n + 1);
        std::vector<std::uint32_t> pred(n + 1);
        std::vector<boost::default_color_type> color(n + 1);
        boost::dag_shortest_paths(
            g, 0u,
            boost::weight_map(boost::get(&arc_property::w, g))
                .distance_map(est.data())
                .predecessor_map(pred.data())
                .color_map(color.data())
                .distance_compare(std::greater<std::uint64_t>())
                .distance_combine(std::plus<std::uint64_t>())
                .distance_inf(0)
                .distance_zero(0));
        double took = now_s() - begin;
        best = took < best ? took : best;
        t_max = 0;
        for (std::uint64_t v : est)
            t_max = v > t_max ? v : t_max;
    }
    std::printf("boost %u %.1f %llu\n", n, n / best / 1e6,
                static_cast<unsigned long long>(t_max));
    return 0;
}
