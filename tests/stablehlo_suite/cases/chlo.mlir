// Values that are known in closed form.
func.func @zeta() {
  %a = stablehlo.constant dense<[2.0, 3.0, 2.0, 4.0, 2.0]> : tensor<5xf32>
  %b = stablehlo.constant dense<[1.0, 1.0, 2.0, 0.5, 0.5]> : tensor<5xf32>
  %y = chlo.zeta %a, %b : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>
  check.expect_almost_eq_const %y, dense<[1.6449340668482264, 1.2020569031595942, 0.6449340668482264, 16.23484850566707, 4.934802200544679]> : tensor<5xf32>
  return
}

// -----

// Values that are known in closed form.
func.func @polygamma() {
  %a = stablehlo.constant dense<[0.0, 1.0, 1.0, 2.0, 3.0]> : tensor<5xf32>
  %b = stablehlo.constant dense<[1.0, 1.0, 0.5, 1.0, 1.0]> : tensor<5xf32>
  %y = chlo.polygamma %a, %b : tensor<5xf32>, tensor<5xf32> -> tensor<5xf32>
  check.expect_almost_eq_const %y, dense<[-0.5772156649015329, 1.6449340668482264, 4.934802200544679, -2.4041138063191885, 6.493939402266828]> : tensor<5xf32>
  return
}

// -----

// Values that are known in closed form.
func.func @acos() {
  %x = stablehlo.constant dense<[0.0, 1.0, -1.0, 0.5, -0.5]> : tensor<5xf32>
  %y = chlo.acos %x : tensor<5xf32> -> tensor<5xf32>
  check.expect_almost_eq_const %y, dense<[1.5707963267948966, 0.0, 3.141592653589793, 1.0471975511965976, 2.0943951023931953]> : tensor<5xf32>
  return
}

// -----

// acos(0) = pi/2, acos(1) = 0, acos(i) = pi/2 - i asinh(1).
func.func @acos_complex() {
  %x = stablehlo.constant dense<[(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]> : tensor<3xcomplex<f32>>
  %y = chlo.acos %x : tensor<3xcomplex<f32>> -> tensor<3xcomplex<f32>>
  check.expect_almost_eq_const %y, dense<[(1.5707963267948966, 0.0), (0.0, 0.0), (1.5707963267948966, -0.881373587019543)]> : tensor<3xcomplex<f32>>
  return
}

// -----

// The imaginary part with the other sign.
func.func @conj() {
  %x = stablehlo.constant dense<[(1.0, 2.0), (-3.0, -0.5), (0.0, 0.0)]> : tensor<3xcomplex<f32>>
  %y = chlo.conj %x : tensor<3xcomplex<f32>> -> tensor<3xcomplex<f32>>
  check.expect_almost_eq_const %y, dense<[(1.0, -2.0), (-3.0, 0.5), (0.0, 0.0)]> : tensor<3xcomplex<f32>>
  return
}

// -----

// Each number by itself.
func.func @square() {
  %x = stablehlo.constant dense<[1.5, -2.0, 0.0]> : tensor<3xf32>
  %y = chlo.square %x : tensor<3xf32> -> tensor<3xf32>
  check.expect_almost_eq_const %y, dense<[2.25, 4.0, 0.0]> : tensor<3xf32>
  return
}

// -----

// Each number by itself, not by its conjugate.
func.func @square_complex() {
  %x = stablehlo.constant dense<[(1.0, 2.0), (-0.0, -1.0)]> : tensor<2xcomplex<f32>>
  %y = chlo.square %x : tensor<2xcomplex<f32>> -> tensor<2xcomplex<f32>>
  check.expect_almost_eq_const %y, dense<[(-3.0, 4.0), (-1.0, 0.0)]> : tensor<2xcomplex<f32>>
  return
}

// -----

// Which are infinite, and of which sign.
func.func @kinds_of_infinity() {
  %x = stablehlo.constant dense<[1.0, 0x7F800000, 0xFF800000, 0x7FC00000]> : tensor<4xf32>
  %y = chlo.is_inf %x : tensor<4xf32> -> tensor<4xi1>
  %p = chlo.is_pos_inf %x : tensor<4xf32> -> tensor<4xi1>
  %n = chlo.is_neg_inf %x : tensor<4xf32> -> tensor<4xi1>
  check.expect_eq_const %y, dense<[false, true, true, false]> : tensor<4xi1>
  check.expect_eq_const %p, dense<[false, true, false, false]> : tensor<4xi1>
  check.expect_eq_const %n, dense<[false, false, true, false]> : tensor<4xi1>
  return
}

// -----

// The upper half of the product, of either sign.
func.func @mulhi() {
  %a = stablehlo.constant dense<[2147483647, -2147483648, 3, -5]> : tensor<4xi32>
  %b = stablehlo.constant dense<[2147483647, 2147483647, 7, 9]> : tensor<4xi32>
  %y = chlo.mulhi %a, %b : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
  check.expect_eq_const %y, dense<[1073741823, -1073741824, 0, -1]> : tensor<4xi32>
  return
}

// -----

// A constant, and one number in the shape of an operand.
func.func @constants() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %c = chlo.constant dense<[0.5, -0.5]> : tensor<2xf32>
  %l = "chlo.constant_like"(%x) {value = 1.5 : f32} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = stablehlo.multiply %x, %l : tensor<2x2xf32>
  %d = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %z = stablehlo.add %y, %d : tensor<2x2xf32>
  check.expect_eq_const %z, dense<[[2.0, 2.5], [5.0, 5.5]]> : tensor<2x2xf32>
  return
}
