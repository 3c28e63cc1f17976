// L of L L^T, two matrices; what is above the diagonal is not said.
func.func @cholesky_lower() {
  %a = stablehlo.constant dense<[[[4.0, 2.0, -1.0], [2.0, 10.0, 0.25], [-1.0, 0.25, 2.5625]], [[1.0, 4.0, 0.0], [4.0, 16.25, -1.0], [0.0, -1.0, 13.0]]]> : tensor<2x3x3xf32>
  %y = stablehlo.cholesky %a, lower = true : tensor<2x3x3xf32>
  %rows = stablehlo.iota dim = 1 : tensor<2x3x3xi32>
  %columns = stablehlo.iota dim = 2 : tensor<2x3x3xi32>
  %inside = stablehlo.compare GE, %rows, %columns, SIGNED : (tensor<2x3x3xi32>, tensor<2x3x3xi32>) -> tensor<2x3x3xi1>
  %nothing = stablehlo.subtract %y, %y : tensor<2x3x3xf32>
  %factor = stablehlo.select %inside, %y, %nothing : tensor<2x3x3xi1>, tensor<2x3x3xf32>
  check.expect_almost_eq_const %factor, dense<[[[2.0, 0.0, 0.0], [1.0, 3.0, 0.0], [-0.5, 0.25, 1.5]], [[1.0, 0.0, 0.0], [4.0, 0.5, 0.0], [0.0, -2.0, 3.0]]]> : tensor<2x3x3xf32>
  return
}

// -----

// U of U^T U, in f64.
func.func @cholesky_upper() {
  %a = stablehlo.constant dense<[[4.0, 2.0, -1.0], [2.0, 10.0, 0.25], [-1.0, 0.25, 2.5625]]> : tensor<3x3xf64>
  %y = stablehlo.cholesky %a, lower = false : tensor<3x3xf64>
  %rows = stablehlo.iota dim = 0 : tensor<3x3xi32>
  %columns = stablehlo.iota dim = 1 : tensor<3x3xi32>
  %inside = stablehlo.compare LE, %rows, %columns, SIGNED : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
  %nothing = stablehlo.subtract %y, %y : tensor<3x3xf64>
  %factor = stablehlo.select %inside, %y, %nothing : tensor<3x3xi1>, tensor<3x3xf64>
  check.expect_almost_eq_const %factor, dense<[[2.0, 1.0, -0.5], [0.0, 3.0, 0.25], [0.0, 0.0, 1.5]]> : tensor<3x3xf64>
  return
}

// -----

// The square root.
func.func @cholesky_of_one_number() {
  %a = stablehlo.constant dense<[[6.25]]> : tensor<1x1xf32>
  %y = stablehlo.cholesky %a, lower = true : tensor<1x1xf32>
  check.expect_almost_eq_const %y, dense<[[2.5]]> : tensor<1x1xf32>
  return
}

// -----

// L of L L^H, whose diagonal is real.
func.func @cholesky_complex() {
  %a = stablehlo.constant dense<[[(4.0, 0.0), (2.0, 4.0)], [(2.0, -4.0), (7.25, 0.0)]]> : tensor<2x2xcomplex<f32>>
  %y = stablehlo.cholesky %a, lower = true : tensor<2x2xcomplex<f32>>
  %rows = stablehlo.iota dim = 0 : tensor<2x2xi32>
  %columns = stablehlo.iota dim = 1 : tensor<2x2xi32>
  %inside = stablehlo.compare GE, %rows, %columns, SIGNED : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
  %nothing = stablehlo.subtract %y, %y : tensor<2x2xcomplex<f32>>
  %factor = stablehlo.select %inside, %y, %nothing : tensor<2x2xi1>, tensor<2x2xcomplex<f32>>
  check.expect_almost_eq_const %factor, dense<[[(2.0, 0.0), (0.0, 0.0)], [(1.0, -2.0), (1.5, 0.0)]]> : tensor<2x2xcomplex<f32>>
  return
}
