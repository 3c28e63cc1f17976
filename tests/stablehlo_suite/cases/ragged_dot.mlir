// Each row takes the matrix of its group; a row after the last group is 0.
func.func @groups_of_rows() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %w = stablehlo.constant dense<[[[1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0], [1.0, -1.0]], [[0.0, 3.0], [1.0, 0.0]]]> : tensor<3x2x2xf32>
  %g = stablehlo.constant dense<[1, 0, 2]> : tensor<3xi64>
  %y = "chlo.ragged_dot"(%x, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>, precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]}> : (tensor<4x2xf32>, tensor<3x2x2xf32>, tensor<3xi64>) -> tensor<4x2xf32>
  check.expect_almost_eq_const %y, dense<[[1.0, 2.0], [4.0, 9.0], [6.0, 15.0], [0.0, 0.0]]> : tensor<4x2xf32>
  return
}

// -----

// A product for each group of places.
func.func @groups_of_contracted_places() {
  %x = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %w = stablehlo.constant dense<[[1.0], [-1.0], [2.0]]> : tensor<3x1xf32>
  %g = stablehlo.constant dense<[2, 1]> : tensor<2xi64>
  %y = "chlo.ragged_dot"(%x, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0], lhs_ragged_dimensions = [1]>, precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]}> : (tensor<2x3xf32>, tensor<3x1xf32>, tensor<2xi64>) -> tensor<2x2x1xf32>
  check.expect_almost_eq_const %y, dense<[[[-1.0], [-1.0]], [[6.0], [12.0]]]> : tensor<2x2x1xf32>
  return
}

// -----

// A ragged batch axis is a batch axis.
func.func @groups_of_batches() {
  %x = stablehlo.constant dense<[[[1.0, 2.0]], [[3.0, 4.0]]]> : tensor<2x1x2xf32>
  %w = stablehlo.constant dense<[[[1.0], [1.0]], [[2.0], [-1.0]]]> : tensor<2x2x1xf32>
  %g = stablehlo.constant dense<[1, 1]> : tensor<2xi64>
  %y = "chlo.ragged_dot"(%x, %w, %g) <{ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0]>, precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]}> : (tensor<2x1x2xf32>, tensor<2x2x1xf32>, tensor<2xi64>) -> tensor<2x1x1xf32>
  check.expect_almost_eq_const %y, dense<[[[3.0]], [[2.0]]]> : tensor<2x1x1xf32>
  return
}
