// Positions counted from a mask, as jax.export writes cumsum along a symbolic axis.
func.func @positions() {
  %x = stablehlo.constant dense<[[0, 1, 1, 1], [1, 1, 0, 1]]> : tensor<2x4xi32>
  %r = func.call @windows(%x) : (tensor<2x4xi32>) -> tensor<2x4xi32>
  check.expect_eq_const %r, dense<[[0, 1, 2, 3], [1, 2, 2, 3]]> : tensor<2x4xi32>
  func.return
}

func.func private @body(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.add %a, %b : tensor<i32>
  func.return %r : tensor<i32>
}

func.func private @windows(%whole: tensor<2x4xi32>) -> tensor<2x4xi32> {
  %init = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %size = stablehlo.get_dimension_size %whole, dim = 1 : (tensor<2x4xi32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %before, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%whole, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<2x4xi32>, tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<2x4xi32>
  func.return %r : tensor<2x4xi32>
}

// -----

// The same where data decides how long the axis is.
func.func @positions_of_counted_length() {
  %x = stablehlo.constant dense<[[0, 1, 1, 1, 9], [1, 1, 0, 1, 9]]> : tensor<2x5xi32>
  %mask = stablehlo.constant dense<[1, 1, 1, 1, 0]> : tensor<5xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
  %r = func.call @windows(%x, %count) : (tensor<2x5xi32>, tensor<i32>) -> tensor<2x4xi32>
  check.expect_eq_const %r, dense<[[0, 1, 2, 3], [1, 2, 2, 3]]> : tensor<2x4xi32>
  func.return
}

func.func private @body(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.add %a, %b : tensor<i32>
  func.return %r : tensor<i32>
}

func.func private @windows(%whole: tensor<2x5xi32>, %count: tensor<i32>) -> tensor<2x4xi32> {
  %init = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %length = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %rows = stablehlo.constant dense<2> : tensor<1xi32>
  %limits = stablehlo.concatenate %rows, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %starts = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %steps = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %x = stablehlo.real_dynamic_slice %whole, %starts, %limits, %steps : (tensor<2x5xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x?xi32>
  %size = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x?xi32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %before, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<2x?xi32>, tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<2x4xi32>
  func.return %r : tensor<2x4xi32>
}

// -----

// A running product from the end.
func.func @running_product_from_the_end() {
  %x = stablehlo.constant dense<[[2.0, -1.0, 3.0, 0.5, 7.0]]> : tensor<1x5xf32>
  %mask = stablehlo.constant dense<[1, 1, 1, 1, 0]> : tensor<5xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
  %r = func.call @windows(%x, %count) : (tensor<1x5xf32>, tensor<i32>) -> tensor<1x4xf32>
  check.expect_eq_const %r, dense<[[-3.0, -1.5, 1.5, 0.5]]> : tensor<1x4xf32>
  func.return
}

func.func private @body(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %r = stablehlo.multiply %a, %b : tensor<f32>
  func.return %r : tensor<f32>
}

func.func private @windows(%whole: tensor<1x5xf32>, %count: tensor<i32>) -> tensor<1x4xf32> {
  %init = stablehlo.constant dense<1.0> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %length = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %rows = stablehlo.constant dense<1> : tensor<1xi32>
  %limits = stablehlo.concatenate %rows, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %starts = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %steps = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %x = stablehlo.real_dynamic_slice %whole, %starts, %limits, %steps : (tensor<1x5xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xf32>
  %size = stablehlo.get_dimension_size %x, dim = 1 : (tensor<1x?xf32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %zero, %before, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<1x?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<1x4xf32>
  func.return %r : tensor<1x4xf32>
}

// -----

// A running maximum.
func.func @running_maximum() {
  %x = stablehlo.constant dense<[[3, -1, 5, -3, 5, 6, 2, 9]]> : tensor<1x8xi32>
  %mask = stablehlo.constant dense<[1, 1, 1, 1, 1, 1, 1, 0]> : tensor<8xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<8xi32>, tensor<i32>) -> tensor<i32>
  %r = func.call @windows(%x, %count) : (tensor<1x8xi32>, tensor<i32>) -> tensor<1x7xi32>
  check.expect_eq_const %r, dense<[[3, 3, 5, 5, 5, 6, 6]]> : tensor<1x7xi32>
  func.return
}

func.func private @body(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.maximum %a, %b : tensor<i32>
  func.return %r : tensor<i32>
}

func.func private @windows(%whole: tensor<1x8xi32>, %count: tensor<i32>) -> tensor<1x7xi32> {
  %init = stablehlo.constant dense<-2147483648> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %length = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %rows = stablehlo.constant dense<1> : tensor<1xi32>
  %limits = stablehlo.concatenate %rows, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %starts = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %steps = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %x = stablehlo.real_dynamic_slice %whole, %starts, %limits, %steps : (tensor<1x8xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xi32>
  %size = stablehlo.get_dimension_size %x, dim = 1 : (tensor<1x?xi32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %before, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<1x?xi32>, tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<1x7xi32>
  func.return %r : tensor<1x7xi32>
}

// -----

// A running minimum from the end.
func.func @running_minimum_from_the_end() {
  %x = stablehlo.constant dense<[[3.0, -1.0, 5.0, -3.0, 5.0, 9.0]]> : tensor<1x6xf32>
  %mask = stablehlo.constant dense<[1, 1, 1, 1, 1, 0]> : tensor<6xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<6xi32>, tensor<i32>) -> tensor<i32>
  %r = func.call @windows(%x, %count) : (tensor<1x6xf32>, tensor<i32>) -> tensor<1x5xf32>
  check.expect_eq_const %r, dense<[[-3.0, -3.0, -3.0, -3.0, 5.0]]> : tensor<1x5xf32>
  func.return
}

func.func private @body(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %r = stablehlo.minimum %a, %b : tensor<f32>
  func.return %r : tensor<f32>
}

func.func private @windows(%whole: tensor<1x6xf32>, %count: tensor<i32>) -> tensor<1x5xf32> {
  %init = stablehlo.constant dense<0x7F800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %length = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %rows = stablehlo.constant dense<1> : tensor<1xi32>
  %limits = stablehlo.concatenate %rows, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %starts = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %steps = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %x = stablehlo.real_dynamic_slice %whole, %starts, %limits, %steps : (tensor<1x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xf32>
  %size = stablehlo.get_dimension_size %x, dim = 1 : (tensor<1x?xf32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %zero, %before, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<1x?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<1x5xf32>
  func.return %r : tensor<1x5xf32>
}

// -----

// Windows as wide as the axis and no padding: a reduction.
func.func @windows_of_everything() {
  %x = stablehlo.constant dense<[[1, 2, 3, 4], [5, 6, 7, 9]]> : tensor<2x4xi32>
  %mask = stablehlo.constant dense<[1, 1, 1, 0]> : tensor<4xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
  %r = func.call @windows(%x, %count) : (tensor<2x4xi32>, tensor<i32>) -> tensor<2x1xi32>
  check.expect_eq_const %r, dense<[[6], [18]]> : tensor<2x1xi32>
  func.return
}

func.func private @body(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.add %a, %b : tensor<i32>
  func.return %r : tensor<i32>
}

func.func private @windows(%whole: tensor<2x4xi32>, %count: tensor<i32>) -> tensor<2x1xi32> {
  %init = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %length = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %rows = stablehlo.constant dense<2> : tensor<1xi32>
  %limits = stablehlo.concatenate %rows, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %starts = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %steps = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %x = stablehlo.real_dynamic_slice %whole, %starts, %limits, %steps : (tensor<2x4xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x?xi32>
  %size = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x?xi32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<2x?xi32>, tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<2x1xi32>
  func.return %r : tensor<2x1xi32>
}

// -----

// Windows as wide as the axis, and one place of padding on either side.
func.func @windows_that_grow_with_the_axis() {
  %x = stablehlo.constant dense<[[1, 2, 3, 4, 9]]> : tensor<1x5xi32>
  %mask = stablehlo.constant dense<[1, 1, 1, 1, 0]> : tensor<5xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
  %r = func.call @windows(%x, %count) : (tensor<1x5xi32>, tensor<i32>) -> tensor<1x3xi32>
  check.expect_eq_const %r, dense<[[6, 10, 9]]> : tensor<1x3xi32>
  func.return
}

func.func private @body(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.add %a, %b : tensor<i32>
  func.return %r : tensor<i32>
}

func.func private @windows(%whole: tensor<1x5xi32>, %count: tensor<i32>) -> tensor<1x3xi32> {
  %init = stablehlo.constant dense<0> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %length = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %rows = stablehlo.constant dense<1> : tensor<1xi32>
  %limits = stablehlo.concatenate %rows, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %starts = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %steps = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %x = stablehlo.real_dynamic_slice %whole, %starts, %limits, %steps : (tensor<1x5xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xi32>
  %size = stablehlo.get_dimension_size %x, dim = 1 : (tensor<1x?xi32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<1x?xi32>, tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<1x3xi32>
  func.return %r : tensor<1x3xi32>
}

// -----

// Windows of two that stride, padded by data, as pools with padding SAME are.
func.func @strided_windows() {
  %x = stablehlo.constant dense<[[5.0, 1.0, 2.0, 9.0, 3.0, 7.0]]> : tensor<1x6xf32>
  %mask = stablehlo.constant dense<[1, 1, 1, 1, 1, 0]> : tensor<6xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<6xi32>, tensor<i32>) -> tensor<i32>
  %r = func.call @windows(%x, %count) : (tensor<1x6xf32>, tensor<i32>) -> tensor<1x3xf32>
  check.expect_eq_const %r, dense<[[5.0, 9.0, 3.0]]> : tensor<1x3xf32>
  func.return
}

func.func private @body(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %r = stablehlo.maximum %a, %b : tensor<f32>
  func.return %r : tensor<f32>
}

func.func private @windows(%whole: tensor<1x6xf32>, %count: tensor<i32>) -> tensor<1x3xf32> {
  %init = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %length = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %rows = stablehlo.constant dense<1> : tensor<1xi32>
  %limits = stablehlo.concatenate %rows, %length, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %starts = stablehlo.concatenate %zero, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %steps = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %x = stablehlo.real_dynamic_slice %whole, %starts, %limits, %steps : (tensor<1x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<1x?xf32>
  %size = stablehlo.get_dimension_size %x, dim = 1 : (tensor<1x?xf32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %two, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %zero, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%x, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<1x?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<1x3xf32>
  func.return %r : tensor<1x3xf32>
}

// -----

// An initial value that is not neutral counts once for every place outside, and once more.
func.func @initial_value_in_the_padding() {
  %x = stablehlo.constant dense<[[1, 2, 3]]> : tensor<1x3xi32>
  %r = func.call @windows(%x) : (tensor<1x3xi32>) -> tensor<1x3xi32>
  check.expect_eq_const %r, dense<[[31, 23, 16]]> : tensor<1x3xi32>
  func.return
}

func.func private @body(%a: tensor<i32>, %b: tensor<i32>) -> tensor<i32> {
  %r = stablehlo.add %a, %b : tensor<i32>
  func.return %r : tensor<i32>
}

func.func private @windows(%whole: tensor<1x3xi32>) -> tensor<1x3xi32> {
  %init = stablehlo.constant dense<10> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<1xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi32>
  %two = stablehlo.constant dense<2> : tensor<1xi32>
  %size = stablehlo.get_dimension_size %whole, dim = 1 : (tensor<1x3xi32>) -> tensor<i32>
  %n = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %before = stablehlo.subtract %n, %one : tensor<1xi32>
  %sizes = stablehlo.concatenate %one, %n, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %strides = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %ones = stablehlo.concatenate %one, %one, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %flat = stablehlo.concatenate %zero, %zero, %before, %zero, dim = 0 : (tensor<1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi32>
  %pads = stablehlo.reshape %flat : (tensor<4xi32>) -> tensor<2x2xi32>
  %r = stablehlo.custom_call @stablehlo.dynamic_reduce_window(%whole, %init, %sizes, %strides, %ones, %ones, %pads) {called_computations = [@body]} : (tensor<1x3xi32>, tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<1x3xi32>
  func.return %r : tensor<1x3xi32>
}

// -----

// The k largest, where data decides k; ties go to the lower place.
func.func @largest() {
  %x = stablehlo.constant dense<[[3.0, 7.0, 7.0, 1.0], [0.0, -1.0, 2.0, 0x7F800000]]> : tensor<2x4xf32>
  %k = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.custom_call @stablehlo.dynamic_top_k(%x, %k) : (tensor<2x4xf32>, tensor<i32>) -> (tensor<2x3xf32>, tensor<2x3xi32>)
  check.expect_eq_const %r#0, dense<[[7.0, 7.0, 3.0], [0x7F800000, 2.0, 0.0]]> : tensor<2x3xf32>
  check.expect_eq_const %r#1, dense<[[1, 2, 0], [3, 2, 0]]> : tensor<2x3xi32>
  func.return
}

// -----

// DEFAULT is Philox for a state of two words, whose key is the upper half of the counter too.
func.func @bits_of_two_words() {
  %s = stablehlo.constant dense<[81985529216486895, 18364758544493064720]> : tensor<2xui64>
  %after, %r = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<2x3xui32>)
  check.expect_eq_const %after, dense<[81985529216486895, 18364758544493064722]> : tensor<2xui64>
  check.expect_eq_const %r, dense<[[516242754, 3483603125, 4062402306], [3877632279, 3410436889, 3598874490]]> : tensor<2x3xui32>
  func.return
}

// -----

// A counter of three words that carries.
func.func @bits_of_three_words() {
  %s = stablehlo.constant dense<[81985529216486895, 18446744073709551614, 7]> : tensor<3xui64>
  %after, %r = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<3xui64>) -> (tensor<3xui64>, tensor<3xui64>)
  check.expect_eq_const %after, dense<[81985529216486895, 0, 8]> : tensor<3xui64>
  check.expect_eq_const %r, dense<[16195402367345005317, 11241483975417778735, 17293342034621550241]> : tensor<3xui64>
  func.return
}

// -----

// Bits of a shape that data decides are those of the static shape.
func.func @bits_of_counted_shape() {
  %s = stablehlo.constant dense<[81985529216486895, 18364758544493064720]> : tensor<2xui64>
  %mask = stablehlo.constant dense<[1, 1, 0, 0, 0]> : tensor<5xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<5xi32>, tensor<i32>) -> tensor<i32>
  %r:2 = func.call @bits(%s, %count) : (tensor<2xui64>, tensor<i32>) -> (tensor<2xui64>, tensor<2x3xui32>)
  check.expect_eq_const %r#0, dense<[81985529216486895, 18364758544493064722]> : tensor<2xui64>
  check.expect_eq_const %r#1, dense<[[516242754, 3483603125, 4062402306], [3877632279, 3410436889, 3598874490]]> : tensor<2x3xui32>
  func.return
}

func.func private @bits(%s: tensor<2xui64>, %count: tensor<i32>) -> (tensor<2xui64>, tensor<2x3xui32>) {
  %three = stablehlo.constant dense<3> : tensor<1xi32>
  %n = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %shape = stablehlo.concatenate %n, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %r:2 = stablehlo.custom_call @stablehlo.dynamic_rng_bit_generator(%s, %shape) {rng_algorithm = #stablehlo<rng_algorithm DEFAULT>} : (tensor<2xui64>, tensor<2xi32>) -> (tensor<2xui64>, tensor<?x3xui32>)
  %fixed = stablehlo.reshape %r#1 : (tensor<?x3xui32>) -> tensor<2x3xui32>
  func.return %r#0, %fixed : tensor<2xui64>, tensor<2x3xui32>
}

// -----

// The gradient of a maximum over overlapping, padded windows.
func.func @windows_of_a_gradient() {
  %x = stablehlo.constant dense<[[[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 1.0]], [[1.0, 1.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [1.0, 1.0, 2.0, 1.0]]]> : tensor<2x3x4xf32>
  %s = stablehlo.constant dense<[[[10.0, 11.0, 12.0], [13.0, 14.0, 15.0], [16.0, 17.0, 18.0]], [[19.0, 20.0, 21.0], [22.0, 23.0, 24.0], [25.0, 26.0, 27.0]]]> : tensor<2x3x3xf32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %s, %init) <{window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [0, 1], [1, 1]]> : tensor<3x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<2x3x4xf32>, tensor<2x3x3xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  check.expect_eq_const %r, dense<[[[10.0, 0.0, 0.0, 0.0], [13.0, 25.0, 0.0, 27.0], [16.0, 17.0, 0.0, 18.0]], [[0.0, 0.0, 0.0, 21.0], [41.0, 43.0, 0.0, 0.0], [25.0, 0.0, 26.0, 51.0]]]> : tensor<2x3x4xf32>
  func.return
}

// -----

// The same for a batch that data decides.
func.func @windows_of_a_gradient_of_a_batch() {
  %x = stablehlo.constant dense<[[[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 1.0]], [[1.0, 1.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [1.0, 1.0, 2.0, 1.0]], [[9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]]]> : tensor<3x3x4xf32>
  %s = stablehlo.constant dense<[[[10.0, 11.0, 12.0], [13.0, 14.0, 15.0], [16.0, 17.0, 18.0]], [[19.0, 20.0, 21.0], [22.0, 23.0, 24.0], [25.0, 26.0, 27.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]> : tensor<3x3x3xf32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %mask = stablehlo.constant dense<[1, 1, 0, 0]> : tensor<4xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
  %cut:2 = func.call @cut(%x, %s, %count) : (tensor<3x3x4xf32>, tensor<3x3x3xf32>, tensor<i32>) -> (tensor<?x3x4xf32>, tensor<?x3x3xf32>)
  %r = "stablehlo.select_and_scatter"(%cut#0, %cut#1, %init) <{window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 1, 2>, padding = dense<[[0, 0], [0, 1], [1, 1]]> : tensor<3x2xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<?x3x4xf32>, tensor<?x3x3xf32>, tensor<f32>) -> tensor<?x3x4xf32>
  %fixed = stablehlo.reshape %r : (tensor<?x3x4xf32>) -> tensor<2x3x4xf32>
  check.expect_eq_const %fixed, dense<[[[10.0, 0.0, 0.0, 0.0], [13.0, 25.0, 0.0, 27.0], [16.0, 17.0, 0.0, 18.0]], [[0.0, 0.0, 0.0, 21.0], [41.0, 43.0, 0.0, 0.0], [25.0, 0.0, 26.0, 51.0]]]> : tensor<2x3x4xf32>
  func.return
}

func.func private @cut(%x: tensor<3x3x4xf32>, %s: tensor<3x3x3xf32>, %count: tensor<i32>) -> (tensor<?x3x4xf32>, tensor<?x3x3xf32>) {
  %n = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %starts = stablehlo.constant dense<0> : tensor<3xi32>
  %steps = stablehlo.constant dense<1> : tensor<3xi32>
  %rest0 = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  %limits0 = stablehlo.concatenate %n, %rest0, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
  %cut0 = stablehlo.real_dynamic_slice %x, %starts, %limits0, %steps : (tensor<3x3x4xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x3x4xf32>
  %rest1 = stablehlo.constant dense<[3, 3]> : tensor<2xi32>
  %limits1 = stablehlo.concatenate %n, %rest1, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
  %cut1 = stablehlo.real_dynamic_slice %s, %starts, %limits1, %steps : (tensor<3x3x3xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x3x3xf32>
  func.return %cut0, %cut1 : tensor<?x3x4xf32>, tensor<?x3x3xf32>
}

// -----

// The gradient of a minimum over whole images: the first of equals receives it.
func.func @gradient_of_a_minimum_of_all() {
  %x = stablehlo.constant dense<[[[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 2.0, 1.0], [0.0, 0.0, 0.0, 1.0]], [[1.0, 1.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [1.0, 1.0, 2.0, 1.0]], [[9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0], [9.0, 9.0, 9.0, 9.0]]]> : tensor<3x3x4xf32>
  %s = stablehlo.constant dense<[[[10.0]], [[11.0]], [[12.0]]]> : tensor<3x1x1xf32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %mask = stablehlo.constant dense<[1, 1, 0, 0]> : tensor<4xi32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %count = stablehlo.reduce(%mask init: %none) applies stablehlo.add across dimensions = [0] : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
  %cut:2 = func.call @cut(%x, %s, %count) : (tensor<3x3x4xf32>, tensor<3x1x1xf32>, tensor<i32>) -> (tensor<?x3x4xf32>, tensor<?x1x1xf32>)
  %r = "stablehlo.select_and_scatter"(%cut#0, %cut#1, %init) <{window_dimensions = array<i64: 1, 3, 4>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.compare LE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<?x3x4xf32>, tensor<?x1x1xf32>, tensor<f32>) -> tensor<?x3x4xf32>
  %fixed = stablehlo.reshape %r : (tensor<?x3x4xf32>) -> tensor<2x3x4xf32>
  check.expect_eq_const %fixed, dense<[[[0.0, 10.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]], [[0.0, 0.0, 11.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]> : tensor<2x3x4xf32>
  func.return
}

func.func private @cut(%x: tensor<3x3x4xf32>, %s: tensor<3x1x1xf32>, %count: tensor<i32>) -> (tensor<?x3x4xf32>, tensor<?x1x1xf32>) {
  %n = stablehlo.reshape %count : (tensor<i32>) -> tensor<1xi32>
  %starts = stablehlo.constant dense<0> : tensor<3xi32>
  %steps = stablehlo.constant dense<1> : tensor<3xi32>
  %rest0 = stablehlo.constant dense<[3, 4]> : tensor<2xi32>
  %limits0 = stablehlo.concatenate %n, %rest0, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
  %cut0 = stablehlo.real_dynamic_slice %x, %starts, %limits0, %steps : (tensor<3x3x4xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x3x4xf32>
  %rest1 = stablehlo.constant dense<[1, 1]> : tensor<2xi32>
  %limits1 = stablehlo.concatenate %n, %rest1, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>
  %cut1 = stablehlo.real_dynamic_slice %s, %starts, %limits1, %steps : (tensor<3x1x1xf32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x1x1xf32>
  func.return %cut0, %cut1 : tensor<?x3x4xf32>, tensor<?x1x1xf32>
}

// -----

// A selection by >= starts anew after NaN.
func.func @gradient_beside_nan() {
  %x = stablehlo.constant dense<[[1.0, 0x7FC00000, 3.0, 2.0], [0x7FC00000, 5.0, 5.0, 1.0], [0.0, -0.0, 0.0, -0.0], [1.0, 2.0, 3.0, 0x7FC00000]]> : tensor<4x4xf32>
  %s = stablehlo.constant dense<[[7.0], [8.0], [9.0], [6.0]]> : tensor<4x1xf32>
  %init = stablehlo.constant dense<0.0> : tensor<f32>
  %r = "stablehlo.select_and_scatter"(%x, %s, %init) <{window_dimensions = array<i64: 1, 4>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %0 : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<4x4xf32>, tensor<4x1xf32>, tensor<f32>) -> tensor<4x4xf32>
  check.expect_eq_const %r, dense<[[0.0, 0.0, 7.0, 0.0], [0.0, 8.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 6.0]]> : tensor<4x4xf32>
  func.return
}

// -----

// A static running maximum.
func.func @static_running_maximum() {
  %x = stablehlo.constant dense<[[3.0, -1.0, 5.0, -3.0, 5.0, 6.0, 2.0]]> : tensor<1x7xf32>
  %r = func.call @windows(%x) : (tensor<1x7xf32>) -> tensor<1x7xf32>
  check.expect_eq_const %r, dense<[[3.0, 3.0, 5.0, 5.0, 5.0, 6.0, 6.0]]> : tensor<1x7xf32>
  func.return
}

func.func private @windows(%x: tensor<1x7xf32>) -> tensor<1x7xf32> {
  %init = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %r = "stablehlo.reduce_window"(%x, %init) <{padding = dense<[[0, 0], [6, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 7>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %0 = stablehlo.maximum %a, %b : tensor<f32>
    stablehlo.return %0 : tensor<f32>
  }) : (tensor<1x7xf32>, tensor<f32>) -> tensor<1x7xf32>
  func.return %r : tensor<1x7xf32>
}

// -----

// A static running minimum from the end.
func.func @static_running_minimum() {
  %x = stablehlo.constant dense<[[3, -1, 5, -3, 5]]> : tensor<1x5xi32>
  %r = func.call @windows(%x) : (tensor<1x5xi32>) -> tensor<1x5xi32>
  check.expect_eq_const %r, dense<[[-3, -3, -3, -3, 5]]> : tensor<1x5xi32>
  func.return
}

func.func private @windows(%x: tensor<1x5xi32>) -> tensor<1x5xi32> {
  %init = stablehlo.constant dense<2147483647> : tensor<i32>
  %r = "stablehlo.reduce_window"(%x, %init) <{padding = dense<[[0, 0], [0, 4]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 5>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %0 = stablehlo.minimum %a, %b : tensor<i32>
    stablehlo.return %0 : tensor<i32>
  }) : (tensor<1x5xi32>, tensor<i32>) -> tensor<1x5xi32>
  func.return %r : tensor<1x5xi32>
}

// -----

// A static running product.
func.func @static_running_product() {
  %x = stablehlo.constant dense<[[3, -1, 5, -3, 5]]> : tensor<1x5xi32>
  %r = func.call @windows(%x) : (tensor<1x5xi32>) -> tensor<1x5xi32>
  check.expect_eq_const %r, dense<[[3, -3, -15, 45, 225]]> : tensor<1x5xi32>
  func.return
}

func.func private @windows(%x: tensor<1x5xi32>) -> tensor<1x5xi32> {
  %init = stablehlo.constant dense<1> : tensor<i32>
  %r = "stablehlo.reduce_window"(%x, %init) <{padding = dense<[[0, 0], [4, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 5>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %0 = stablehlo.multiply %a, %b : tensor<i32>
    stablehlo.return %0 : tensor<i32>
  }) : (tensor<1x5xi32>, tensor<i32>) -> tensor<1x5xi32>
  func.return %r : tensor<1x5xi32>
}

// -----

// Division by zero, and of the least number by -1.
func.func @division_i32() {
  %a = stablehlo.constant dense<[7, -7, 0, -2147483648, -2147483648, 7]> : tensor<6xi32>
  %b = stablehlo.constant dense<[0, 0, 0, -1, 0, -2]> : tensor<6xi32>
  %q = stablehlo.divide %a, %b : tensor<6xi32>
  %r = stablehlo.remainder %a, %b : tensor<6xi32>
  check.expect_eq_const %q, dense<[-1, -1, -1, -2147483648, -1, -3]> : tensor<6xi32>
  check.expect_eq_const %r, dense<[7, -7, 0, 0, -2147483648, 1]> : tensor<6xi32>
  func.return
}

// -----

// Division by zero, and of the least number by -1.
func.func @division_i8() {
  %a = stablehlo.constant dense<[7, -128, -128, -7]> : tensor<4xi8>
  %b = stablehlo.constant dense<[0, -1, 0, 2]> : tensor<4xi8>
  %q = stablehlo.divide %a, %b : tensor<4xi8>
  %r = stablehlo.remainder %a, %b : tensor<4xi8>
  check.expect_eq_const %q, dense<[-1, -128, -1, -3]> : tensor<4xi8>
  check.expect_eq_const %r, dense<[7, 0, -128, -1]> : tensor<4xi8>
  func.return
}

// -----

// Division by zero, and of the least number by -1.
func.func @division_ui32() {
  %a = stablehlo.constant dense<[7, 0, 4294967295]> : tensor<3xui32>
  %b = stablehlo.constant dense<[0, 0, 2]> : tensor<3xui32>
  %q = stablehlo.divide %a, %b : tensor<3xui32>
  %r = stablehlo.remainder %a, %b : tensor<3xui32>
  check.expect_eq_const %q, dense<[4294967295, 4294967295, 2147483647]> : tensor<3xui32>
  check.expect_eq_const %r, dense<[7, 0, 1]> : tensor<3xui32>
  func.return
}
