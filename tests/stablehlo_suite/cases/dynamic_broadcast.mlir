// Rows that are all alike.
func.func @dynamic_broadcast_of_a_row() {
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %sizes = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %sizes, dims = [1] : (tensor<3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  %z = stablehlo.add %y, %y : tensor<2x3xf32>
  check.expect_eq_const %z, dense<[[2.0, 4.0, 6.0], [2.0, 4.0, 6.0]]> : tensor<2x3xf32>
  return
}

// -----

// An axis of size 1 is repeated.
func.func @dynamic_broadcast_of_a_column() {
  %x = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>
  %sizes = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %sizes, dims = [0, 1] : (tensor<2x1xi32>, tensor<2xi64>) -> tensor<2x3xi32>
  %z = stablehlo.add %y, %y : tensor<2x3xi32>
  check.expect_eq_const %z, dense<[[2, 2, 2], [4, 4, 4]]> : tensor<2x3xi32>
  return
}

// -----

// One number everywhere.
func.func @dynamic_broadcast_of_a_scalar() {
  %x = stablehlo.constant dense<1.5> : tensor<f64>
  %sizes = stablehlo.constant dense<[2, 2]> : tensor<2xi64>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %sizes, dims = [] : (tensor<f64>, tensor<2xi64>) -> tensor<2x2xf64>
  %z = stablehlo.add %y, %y : tensor<2x2xf64>
  check.expect_eq_const %z, dense<[[3.0, 3.0], [3.0, 3.0]]> : tensor<2x2xf64>
  return
}

// -----

// As many rows as another tensor has.
func.func @dynamic_broadcast_by_a_size() {
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %like = stablehlo.constant dense<[[0.0], [0.0], [0.0]]> : tensor<3x1xf32>
  %n = stablehlo.get_dimension_size %like, dim = 0 : (tensor<3x1xf32>) -> tensor<i32>
  %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %two = stablehlo.constant dense<[2]> : tensor<1xi32>
  %sizes = stablehlo.concatenate %s, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %y = stablehlo.dynamic_broadcast_in_dim %x, %sizes, dims = [1] : (tensor<2xi32>, tensor<2xi32>) -> tensor<3x2xi32>
  %z = stablehlo.multiply %y, %y : tensor<3x2xi32>
  check.expect_eq_const %z, dense<[[1, 4], [1, 4], [1, 4]]> : tensor<3x2xi32>
  return
}
