// (x - mean) / sqrt(variance + epsilon) * scale + offset, along the last axis.
func.func @batch_norm_inference() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, -2.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %s = stablehlo.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %o = stablehlo.constant dense<[0.25, -1.0]> : tensor<2xf32>
  %m = stablehlo.constant dense<[2.0, 1.0]> : tensor<2xf32>
  %v = stablehlo.constant dense<[4.0, 0.25]> : tensor<2xf32>
  %y = "stablehlo.batch_norm_inference"(%x, %s, %o, %m, %v) <{epsilon = 0.0625 : f32, feature_index = 1 : i64}> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  check.expect_almost_eq_const %y, dense<[[-0.7422778767136677, -0.10557280900008414], [1.2422778767136677, -3.6832815729997477], [3.226833630141003, 3.4721359549995796]]> : tensor<3x2xf32>
  return
}

// -----

// The mean and the variance over the rows are results too.
func.func @batch_norm_training() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, -2.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %s = stablehlo.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %o = stablehlo.constant dense<[0.25, -1.0]> : tensor<2xf32>
  %y:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 0.0625 : f32, feature_index = 1 : i64}> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_almost_eq_const %y#0, dense<[[-2.1712797070655276, -1.0], [0.25, -1.6105862215777413], [2.6712797070655276, -0.38941377842225866]]> : tensor<3x2xf32>
  check.expect_almost_eq_const %y#1, dense<[3.0, 2.0]> : tensor<2xf32>
  check.expect_almost_eq_const %y#2, dense<[2.6666666666666665, 10.666666666666666]> : tensor<2xf32>
  return
}

// -----

// Features along the first axis.
func.func @batch_norm_training_of_the_first_axis() {
  %x = stablehlo.constant dense<[[1.0, 3.0, 5.0], [2.0, -2.0, 6.0]]> : tensor<2x3xf32>
  %s = stablehlo.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %o = stablehlo.constant dense<[0.25, -1.0]> : tensor<2xf32>
  %y:3 = "stablehlo.batch_norm_training"(%x, %s, %o) <{epsilon = 0.0625 : f32, feature_index = 0 : i64}> : (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x3xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_almost_eq_const %y#0, dense<[[-2.1712797070655276, 0.25, 2.6712797070655276], [-1.0, -1.6105862215777413, -0.38941377842225866]]> : tensor<2x3xf32>
  check.expect_almost_eq_const %y#1, dense<[3.0, 2.0]> : tensor<2xf32>
  check.expect_almost_eq_const %y#2, dense<[2.6666666666666665, 10.666666666666666]> : tensor<2xf32>
  return
}

// -----

// The gradients of operand, scale and offset.
func.func @batch_norm_grad() {
  %x = stablehlo.constant dense<[[1.0, 2.0], [3.0, -2.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %s = stablehlo.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %m = stablehlo.constant dense<[2.0, 1.0]> : tensor<2xf32>
  %v = stablehlo.constant dense<[4.0, 0.25]> : tensor<2xf32>
  %g = stablehlo.constant dense<[[1.0, 0.5], [-1.0, 2.0], [0.5, -0.25]]> : tensor<3x2xf32>
  %y:3 = "stablehlo.batch_norm_grad"(%x, %s, %m, %v, %g) <{epsilon = 0.0625 : f32, feature_index = 1 : i64}> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_almost_eq_const %y#0, dense<[[0.7861893946269829, 6.216268977449414], [-1.1169486868648721, -18.201593336848287], [0.45288580014110996, 31.304951684997054]]> : tensor<3x2xf32>
  check.expect_almost_eq_const %y#1, dense<[-0.248069469178417, -12.074767078498864]> : tensor<2xf32>
  check.expect_almost_eq_const %y#2, dense<[0.5, 2.25]> : tensor<2xf32>
  return
}
