// A product of matrices.
func.func @dot_of_matrices() {
  %a = stablehlo.constant dense<[[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]> : tensor<2x3xf32>
  %b = stablehlo.constant dense<[[1.0, 0.0], [2.0, -1.0], [0.5, 4.0]]> : tensor<3x2xf32>
  %y = stablehlo.dot %a, %b : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %y, dense<[[4.5, -6.0], [2.0, 12.0]]> : tensor<2x2xf32>
  return
}

// -----

// A matrix by a vector, and a vector by itself.
func.func @dot_of_vectors() {
  %a = stablehlo.constant dense<[[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]> : tensor<2x3xf32>
  %v = stablehlo.constant dense<[1.0, -2.0, 0.5]> : tensor<3xf32>
  %y = stablehlo.dot %a, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  %z = stablehlo.dot %v, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  check.expect_almost_eq_const %y, dense<[-3.5, 2.0]> : tensor<2xf32>
  check.expect_almost_eq_const %z, dense<5.25> : tensor<f32>
  return
}

// -----

// A product of integers is exact.
func.func @dot_of_integers() {
  %a = stablehlo.constant dense<[[1, 2], [3, -4]]> : tensor<2x2xi32>
  %y = stablehlo.dot %a, %a : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %y, dense<[[7, -6], [-9, 22]]> : tensor<2x2xi32>
  return
}

// -----

// ij,jk->ki: a product, transposed.
func.func @einsum() {
  %a = stablehlo.constant dense<[[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]]> : tensor<2x3xf32>
  %b = stablehlo.constant dense<[[1.0, 0.0], [2.0, -1.0], [0.5, 4.0]]> : tensor<3x2xf32>
  %y = "stablehlo.einsum"(%a, %b) <{einsum_config = "ij,jk->ki"}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %y, dense<[[4.5, 2.0], [-6.0, 12.0]]> : tensor<2x2xf32>
  return
}

// -----

// bij,bj->bi: for each b a matrix by a vector.
func.func @einsum_with_a_batch() {
  %a = stablehlo.constant dense<[[[1.0, 2.0], [3.0, 4.0]], [[0.5, -1.0], [2.0, 0.0]]]> : tensor<2x2x2xf32>
  %v = stablehlo.constant dense<[[1.0, -1.0], [4.0, 0.5]]> : tensor<2x2xf32>
  %y = "stablehlo.einsum"(%a, %v) <{einsum_config = "bij,bj->bi"}> : (tensor<2x2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %y, dense<[[-1.0, -1.0], [1.5, 8.0]]> : tensor<2x2xf32>
  return
}

// -----

// ijk->ki: a sum over the second axis, transposed.
func.func @unary_einsum() {
  %x = stablehlo.constant dense<[[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[7.0, 8.0], [9.0, 10.0], [11.0, 12.0]]]> : tensor<2x3x2xf32>
  %y = "stablehlo.unary_einsum"(%x) <{einsum_config = "ijk->ki"}> : (tensor<2x3x2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %y, dense<[[9.0, 27.0], [12.0, 30.0]]> : tensor<2x2xf32>
  return
}

// -----

// Rows in the order of the indices; those outside are clamped.
func.func @torch_index_select() {
  %x = stablehlo.constant dense<[[1, 2], [3, 4], [5, 6]]> : tensor<3x2xi32>
  %i = stablehlo.constant dense<[2, 0, 2, 7]> : tensor<4xi32>
  %y = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<3x2xi32>, tensor<4xi32>) -> tensor<4x2xi32>
  check.expect_eq_const %y, dense<[[5, 6], [1, 2], [5, 6], [5, 6]]> : tensor<4x2xi32>
  return
}

// -----

// For each b the columns that its indices name.
func.func @torch_index_select_in_batches() {
  %x = stablehlo.constant dense<[[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]> : tensor<2x1x3xf32>
  %i = stablehlo.constant dense<[[2, 1], [0, 0]]> : tensor<2x2xi32>
  %y = "stablehlo.torch_index_select"(%x, %i) <{dim = 2 : i64, batch_dims = 1 : i64}> : (tensor<2x1x3xf32>, tensor<2x2xi32>) -> tensor<2x1x2xf32>
  check.expect_eq_const %y, dense<[[[3.0, 2.0]], [[4.0, 4.0]]]> : tensor<2x1x2xf32>
  return
}

// -----

// New axes in front.
func.func @broadcast() {
  %x = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %y = stablehlo.broadcast %x, sizes = [2] : (tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<[[1, 2, 3], [1, 2, 3]]> : tensor<2x3xi32>
  return
}

// -----

// The size that the axis has changes nothing.
func.func @set_dimension_size_to_what_it_is() {
  %x = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<3xf32>) -> tensor<i32>
  %y = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<3xf32>, tensor<i32>) -> tensor<3xf32>
  %z = stablehlo.add %y, %x : tensor<3xf32>
  check.expect_eq_const %z, dense<[2.0, 4.0, 6.0]> : tensor<3xf32>
  return
}
