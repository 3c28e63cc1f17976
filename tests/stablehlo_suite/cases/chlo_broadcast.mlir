// A column and a row.
func.func @broadcast_add() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_add %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[10.0, 6.5, 8.0], [1.0, -2.5, -1.0]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_subtract() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_subtract %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[2.0, 5.5, 4.0], [-7.0, -3.5, -5.0]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_multiply() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_multiply %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[24.0, 3.0, 12.0], [-12.0, -1.5, -6.0]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_divide() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_divide %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_almost_eq_const %y, dense<[[1.5, 12.0, 3.0], [-0.75, -6.0, -1.5]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_maximum() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_maximum %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[6.0, 6.0, 6.0], [4.0, 0.5, 2.0]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_minimum() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_minimum %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[4.0, 0.5, 2.0], [-3.0, -3.0, -3.0]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_remainder() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_remainder %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[2.0, 0.0, 0.0], [-3.0, -0.0, -1.0]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_power() {
  %a = stablehlo.constant dense<[[4.0], [2.25]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[2.0, 0.5, -1.0]> : tensor<3xf32>
  %y = chlo.broadcast_power %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_almost_eq_const %y, dense<[[16.0, 2.0, 0.25], [5.0625, 1.5, 0.4444444444444444]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_atan2() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_atan2 %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_almost_eq_const %y, dense<[[0.982793723247329, 1.4876550949064553, 1.2490457723982544], [-0.6435011087932844, -1.4056476493802699, -0.982793723247329]]> : tensor<2x3xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_and() {
  %a = stablehlo.constant dense<[[12], [-10]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[3, 5, 6]> : tensor<3xi32>
  %y = chlo.broadcast_and %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<[[0, 4, 4], [2, 4, 6]]> : tensor<2x3xi32>
  return
}

// -----

// A column and a row.
func.func @broadcast_or() {
  %a = stablehlo.constant dense<[[12], [-10]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[3, 5, 6]> : tensor<3xi32>
  %y = chlo.broadcast_or %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<[[15, 13, 14], [-9, -9, -10]]> : tensor<2x3xi32>
  return
}

// -----

// A column and a row.
func.func @broadcast_xor() {
  %a = stablehlo.constant dense<[[12], [-10]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[3, 5, 6]> : tensor<3xi32>
  %y = chlo.broadcast_xor %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<[[15, 9, 10], [-11, -13, -16]]> : tensor<2x3xi32>
  return
}

// -----

// A column and a row.
func.func @broadcast_shift_left() {
  %a = stablehlo.constant dense<[[12], [-10]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %y = chlo.broadcast_shift_left %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<[[24, 48, 96], [-20, -40, -80]]> : tensor<2x3xi32>
  return
}

// -----

// A column and a row.
func.func @broadcast_shift_right_arithmetic() {
  %a = stablehlo.constant dense<[[12], [-10]]> : tensor<2x1xi32>
  %b = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
  %y = chlo.broadcast_shift_right_arithmetic %a, %b : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<[[6, 3, 1], [-5, -3, -2]]> : tensor<2x3xi32>
  return
}

// -----

// A column and a row.
func.func @broadcast_shift_right_logical() {
  %a = stablehlo.constant dense<[[12], [200]]> : tensor<2x1xui32>
  %b = stablehlo.constant dense<[1, 3, 4]> : tensor<3xui32>
  %y = chlo.broadcast_shift_right_logical %a, %b : (tensor<2x1xui32>, tensor<3xui32>) -> tensor<2x3xui32>
  check.expect_eq_const %y, dense<[[6, 1, 0], [100, 25, 12]]> : tensor<2x3xui32>
  return
}

// -----

// A column and a row.
func.func @broadcast_compare() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_compare %a, %b {comparison_direction = #chlo<comparison_direction GT>} : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xi1>
  check.expect_eq_const %y, dense<[[true, true, true], [false, false, false]]> : tensor<2x3xi1>
  return
}

// -----

// A real column and an imaginary row.
func.func @broadcast_complex() {
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[4.0, 0.5, 2.0]> : tensor<3xf32>
  %y = chlo.broadcast_complex %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xcomplex<f32>>
  check.expect_almost_eq_const %y, dense<[[(6.0, 4.0), (6.0, 0.5), (6.0, 2.0)], [(-3.0, 4.0), (-3.0, 0.5), (-3.0, 2.0)]]> : tensor<2x3xcomplex<f32>>
  return
}

// -----

// A condition for each column.
func.func @broadcast_select() {
  %p = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %a = stablehlo.constant dense<[[6.0], [-3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[[4.0, 0.5, 2.0], [1.0, -1.0, 8.0]]> : tensor<2x3xf32>
  %y = chlo.broadcast_select %p, %a, %b : (tensor<3xi1>, tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[6.0, 0.5, 6.0], [-3.0, -1.0, -3.0]]> : tensor<2x3xf32>
  return
}

// -----

// The vector lies along the first axis, as the attribute says.
func.func @broadcast_add_along_named_axes() {
  %a = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %b = stablehlo.constant dense<[10, 20]> : tensor<2xi32>
  %y = chlo.broadcast_add %a, %b {broadcast_dimensions = array<i64: 0>} : (tensor<2x3xi32>, tensor<2xi32>) -> tensor<2x3xi32>
  check.expect_eq_const %y, dense<[[11, 12, 13], [24, 25, 26]]> : tensor<2x3xi32>
  return
}

// -----

// A column and a row.
func.func @broadcast_zeta() {
  %a = stablehlo.constant dense<[[2.0], [3.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = chlo.broadcast_zeta %a, %b : (tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %y, dense<[[1.6449340668482264, 0.6449340668482264], [1.2020569031595942, 0.20205690315959424]]> : tensor<2x2xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_polygamma() {
  %a = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %y = chlo.broadcast_polygamma %a, %b : (tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %y, dense<[[1.6449340668482264, 0.6449340668482264], [-2.4041138063191885, -0.4041138063191885]]> : tensor<2x2xf32>
  return
}

// -----

// A column and a row.
func.func @broadcast_next_after() {
  %a = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = stablehlo.constant dense<[1.0, 2.0, 0.5]> : tensor<3xf32>
  %y = chlo.broadcast_next_after %a, %b : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  check.expect_eq_const %y, dense<[[1.0, 1.0000001192092896, 0.9999999403953552], [1.9999998807907104, 2.0, 1.9999998807907104]]> : tensor<2x3xf32>
  return
}
