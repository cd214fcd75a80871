#include "table/metrics_columns.h"

namespace msvis {
namespace {

using Type = MetricsColumn::Type;

constexpr std::string_view of_values = "unit of the tensor";

constexpr std::array columns{
    MetricsColumn{"step", Type::step, 0, "1", "step of the dump"},
    MetricsColumn{"rank", Type::rank, 0, "1", "rank of the dumped job"},
    MetricsColumn{"node_order", Type::node_order, 0, "1", "place of the target node in the order of execution; the root is last"},
    MetricsColumn{"node", Type::text, text_node, "", "target node"},
    MetricsColumn{"parameter", Type::text, text_parameter, "", "parameter without the name of its node in front"},
    MetricsColumn{"position", Type::position, 0, "1", "place of the parameter in its node, inputs before outputs"},
    MetricsColumn{"golden_node", Type::text, text_golden_node, "", "matched golden node; empty: none"},
    MetricsColumn{"golden_parameter", Type::text, text_golden_parameter, "", "its parameter that was compared; empty: none"},
    MetricsColumn{"target_dtype", Type::text, text_target_dtype, "", "dtype as the target's dump states it"},
    MetricsColumn{"golden_dtype", Type::text, text_golden_dtype, "", "dtype as the golden dump states it"},
    MetricsColumn{"target_shape", Type::text, text_target_shape, "", "shape as the target's dump states it"},
    MetricsColumn{"golden_shape", Type::text, text_golden_shape, "", "shape as the golden dump states it"},
    MetricsColumn{"result", Type::text, text_result, "",
                  "pass, warning or error; unmatched: the golden has no such node; empty: not compared"},
    MetricsColumn{"precision_index", Type::number, number_precision_index, "1", "of the node: 0 pass, 0.5 warning, 1 error"},
    MetricsColumn{"target_max", Type::number, number_target_statistics + 0, of_values, "maximum of the target"},
    MetricsColumn{"target_min", Type::number, number_target_statistics + 1, of_values, "minimum of the target"},
    MetricsColumn{"target_mean", Type::number, number_target_statistics + 2, of_values, "mean of the target"},
    MetricsColumn{"target_norm", Type::number, number_target_statistics + 3, of_values, "L2 norm of the target"},
    MetricsColumn{"golden_max", Type::number, number_golden_statistics + 0, of_values, "maximum of the golden"},
    MetricsColumn{"golden_min", Type::number, number_golden_statistics + 1, of_values, "minimum of the golden"},
    MetricsColumn{"golden_mean", Type::number, number_golden_statistics + 2, of_values, "mean of the golden"},
    MetricsColumn{"golden_norm", Type::number, number_golden_statistics + 3, of_values, "L2 norm of the golden"},
    MetricsColumn{"max_diff", Type::number, number_statistics_cells + 0, of_values, "statistics mode: Max diff, target less golden"},
    MetricsColumn{"min_diff", Type::number, number_statistics_cells + 1, of_values, "statistics mode: Min diff, target less golden"},
    MetricsColumn{"mean_diff", Type::number, number_statistics_cells + 2, of_values, "statistics mode: Mean diff, target less golden"},
    MetricsColumn{"norm_diff", Type::number, number_statistics_cells + 3, of_values, "statistics mode: L2norm diff, target less golden"},
    MetricsColumn{"max_relative", Type::number, number_statistics_cells + 4, "percent", "statistics mode: MaxRelativeErr, of the golden"},
    MetricsColumn{"min_relative", Type::number, number_statistics_cells + 5, "percent", "statistics mode: MinRelativeErr, of the golden"},
    MetricsColumn{"mean_relative", Type::number, number_statistics_cells + 6, "percent", "statistics mode: MeanRelativeErr, of the golden"},
    MetricsColumn{"norm_relative", Type::number, number_statistics_cells + 7, "percent", "statistics mode: NormRelativeErr, of the golden"},
    MetricsColumn{"cosine", Type::number, number_tensor_cells + 0, "1", "tensor mode: Cosine, cosine similarity"},
    MetricsColumn{"euclidean_distance", Type::number, number_tensor_cells + 1, of_values, "tensor mode: EucDist, Euclidean distance"},
    MetricsColumn{"max_abs_err", Type::number, number_tensor_cells + 2, of_values, "tensor mode: MaxAbsErr, largest absolute error"},
    MetricsColumn{"max_relative_err", Type::number, number_tensor_cells + 3, "1", "tensor mode: MaxRelativeErr, largest relative error"},
    MetricsColumn{"one_thousandth_err_ratio", Type::number, number_tensor_cells + 4, "1",
                  "tensor mode: share of elements whose relative error is below 1/1000"},
    MetricsColumn{"five_thousandths_err_ratio", Type::number, number_tensor_cells + 5, "1",
                  "tensor mode: share of elements whose relative error is below 5/1000"},
    MetricsColumn{"md5_equal", Type::md5_equal, 0, "1", "md5 mode: 1 equal, 0 different, -1 not compared"},
    MetricsColumn{"target_md5", Type::checksum, checksum_target, "", "checksum of the target"},
    MetricsColumn{"golden_md5", Type::checksum, checksum_golden, "", "checksum of the golden"},
    MetricsColumn{"reason", Type::text, text_reason, "", "why the result is what it is, or why there are no metrics"},
};

static_assert(columns.size() <= 64, "a batch has a bit for each column");

}  // namespace

std::span<const MetricsColumn> metrics_columns() {
  return columns;
}

}  // namespace msvis
