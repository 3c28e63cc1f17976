// The first branch, of two results and a value from outside.
func.func @if_true() {
  %p = stablehlo.constant dense<true> : tensor<i1>
  %x = stablehlo.constant dense<[1.0, -2.0, 3.5]> : tensor<3xf32>
  %n = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %r:2 = "stablehlo.if"(%p) ({
    %a = stablehlo.add %x, %x : tensor<3xf32>
    stablehlo.return %a, %n : tensor<3xf32>, tensor<2xi32>
  }, {
    %a = stablehlo.negate %x : tensor<3xf32>
    %b = stablehlo.multiply %n, %n : tensor<2xi32>
    stablehlo.return %a, %b : tensor<3xf32>, tensor<2xi32>
  }) : (tensor<i1>) -> (tensor<3xf32>, tensor<2xi32>)
  check.expect_eq_const %r#0, dense<[2.0, -4.0, 7.0]> : tensor<3xf32>
  check.expect_eq_const %r#1, dense<[1, 2]> : tensor<2xi32>
  return
}

// -----

// The second branch, of two results and a value from outside.
func.func @if_false() {
  %p = stablehlo.constant dense<false> : tensor<i1>
  %x = stablehlo.constant dense<[1.0, -2.0, 3.5]> : tensor<3xf32>
  %n = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %r:2 = "stablehlo.if"(%p) ({
    %a = stablehlo.add %x, %x : tensor<3xf32>
    stablehlo.return %a, %n : tensor<3xf32>, tensor<2xi32>
  }, {
    %a = stablehlo.negate %x : tensor<3xf32>
    %b = stablehlo.multiply %n, %n : tensor<2xi32>
    stablehlo.return %a, %b : tensor<3xf32>, tensor<2xi32>
  }) : (tensor<i1>) -> (tensor<3xf32>, tensor<2xi32>)
  check.expect_eq_const %r#0, dense<[-1.0, 2.0, -3.5]> : tensor<3xf32>
  check.expect_eq_const %r#1, dense<[1, 4]> : tensor<2xi32>
  return
}

// -----

// Halves even numbers and adds 1 to three times the odd ones: 6 has 8 steps to 1.
func.func @if_within_while() {
  %n = stablehlo.constant dense<6> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%m = %n, %steps = %zero) : tensor<i32>, tensor<i32>
    cond {
      %c = stablehlo.compare NE, %m, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %odd = stablehlo.remainder %m, %two : tensor<i32>
      %is = stablehlo.compare EQ, %odd, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %next = "stablehlo.if"(%is) ({
        %a = stablehlo.multiply %m, %three : tensor<i32>
        %b = stablehlo.add %a, %one : tensor<i32>
        stablehlo.return %b : tensor<i32>
      }, {
        %a = stablehlo.divide %m, %two : tensor<i32>
        stablehlo.return %a : tensor<i32>
      }) : (tensor<i1>) -> tensor<i32>
      %s = stablehlo.add %steps, %one : tensor<i32>
      stablehlo.return %next, %s : tensor<i32>, tensor<i32>
    }
  check.expect_eq_const %r#0, dense<1> : tensor<i32>
  check.expect_eq_const %r#1, dense<8> : tensor<i32>
  return
}

// -----

// Both operands come back, of any type.
func.func @optimization_barrier() {
  %x = stablehlo.constant dense<[[1.5, -0.5], [2.0, 0.25]]> : tensor<2x2xf32>
  %n = stablehlo.constant dense<[7, -7]> : tensor<2xi64>
  %r:2 = stablehlo.optimization_barrier %x, %n : tensor<2x2xf32>, tensor<2xi64>
  %s = stablehlo.add %r#0, %x : tensor<2x2xf32>
  check.expect_eq_const %s, dense<[[3.0, -1.0], [4.0, 0.5]]> : tensor<2x2xf32>
  check.expect_eq_const %r#1, dense<[7, -7]> : tensor<2xi64>
  return
}

// -----

// Tokens order nothing on one device.
func.func @tokens() {
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %t = stablehlo.create_token : !stablehlo.token
  %u = stablehlo.after_all %t, %t : !stablehlo.token
  %r:2 = stablehlo.optimization_barrier %x, %u : tensor<2xf32>, !stablehlo.token
  %s = stablehlo.multiply %r#0, %r#0 : tensor<2xf32>
  check.expect_eq_const %s, dense<[1.0, 4.0]> : tensor<2xf32>
  return
}
