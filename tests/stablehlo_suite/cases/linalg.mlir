// The status is the first pivot of 0; its column of L stays 0.
func.func @lu_of_singular_matrices_s() {
  %a = stablehlo.constant dense<[[[2.0, 4.0, 8.0], [1.0, 2.0, 4.0], [4.0, 8.0, 16.0]], [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.0, 1.0, 1.0]], [[0.0, 2.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 8.0]]]> : tensor<3x3x3xf32>
  %r:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<3x3x3xf32>) -> (tensor<3x3x3xf32>, tensor<3x3xi32>, tensor<3xi32>)
  check.expect_almost_eq_const %r#0, dense<[[[4.0, 8.0, 16.0], [0.25, 0.0, 0.0], [0.5, 0.0, 0.0]], [[2.0, 4.0, 6.0], [0.0, 1.0, 1.0], [0.5, 0.0, 0.0]], [[4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 8.0]]]> : tensor<3x3x3xf32>
  check.expect_eq_const %r#1, dense<[[3, 2, 3], [2, 3, 3], [2, 2, 3]]> : tensor<3x3xi32>
  check.expect_eq_const %r#2, dense<[2, 3, 0]> : tensor<3xi32>
  return
}

// -----

// The status is the first pivot of 0; its column of L stays 0.
func.func @lu_of_singular_matrices_z() {
  %a = stablehlo.constant dense<[[[(2.0, 0.0), (4.0, 0.0), (8.0, 0.0)], [(1.0, 0.0), (2.0, 0.0), (4.0, 0.0)], [(4.0, 0.0), (8.0, 0.0), (16.0, 0.0)]], [[(1.0, 0.0), (2.0, 0.0), (3.0, 0.0)], [(2.0, 0.0), (4.0, 0.0), (6.0, 0.0)], [(0.0, 0.0), (1.0, 0.0), (1.0, 0.0)]], [[(0.0, 0.0), (2.0, 0.0), (0.0, 0.0)], [(4.0, 0.0), (0.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0), (8.0, 0.0)]]]> : tensor<3x3x3xcomplex<f64>>
  %r:3 = stablehlo.custom_call @lapack_zgetrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<3x3x3xcomplex<f64>>) -> (tensor<3x3x3xcomplex<f64>>, tensor<3x3xi32>, tensor<3xi32>)
  check.expect_almost_eq_const %r#0, dense<[[[(4.0, 0.0), (8.0, 0.0), (16.0, 0.0)], [(0.25, 0.0), (0.0, 0.0), (0.0, 0.0)], [(0.5, 0.0), (0.0, 0.0), (0.0, 0.0)]], [[(2.0, 0.0), (4.0, 0.0), (6.0, 0.0)], [(0.0, 0.0), (1.0, 0.0), (1.0, 0.0)], [(0.5, 0.0), (0.0, 0.0), (0.0, 0.0)]], [[(4.0, 0.0), (0.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (2.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0), (8.0, 0.0)]]]> : tensor<3x3x3xcomplex<f64>>
  check.expect_eq_const %r#1, dense<[[3, 2, 3], [2, 3, 3], [2, 2, 3]]> : tensor<3x3xi32>
  check.expect_eq_const %r#2, dense<[2, 3, 0]> : tensor<3xi32>
  return
}

// -----

// The status is the first pivot that is not positive.
func.func @cholesky_status() {
  %a = stablehlo.constant dense<[[[4.0, 2.0], [2.0, 1.0]], [[4.0, 2.0], [2.0, 5.0]], [[-1.0, 0.0], [0.0, 1.0]]]> : tensor<3x2x2xf64>
  %r:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<3x2x2xf64>) -> (tensor<3x2x2xf64>, tensor<3xi32>)
  check.expect_eq_const %r#1, dense<[2, 0, 1]> : tensor<3xi32>
  return
}

// -----

// S, U^H U, V V^H and U S V^H.
func.func @singular_vectors_thin() {
  %a = stablehlo.constant dense<[[2.0, -2.5, 0.5], [-0.5, -0.5, -0.25], [-2.0, -0.25, -0.75], [3.25, 0.25, -0.25]]> : tensor<4x3xf32>
  %r:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {mhlo.backend_config = {mode = 83 : ui8}} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<4x3xf32>, tensor<3x3xf32>, tensor<i32>)
  check.expect_almost_eq_const %r#1, dense<[4.464024963432992, 2.4025914925268004, 0.8216052859402242]> : tensor<3xf32>
  check.expect_eq_const %r#4, dense<0> : tensor<i32>
  %ut = stablehlo.transpose %r#2, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %uu = stablehlo.dot_general %ut, %r#2, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %vt = stablehlo.transpose %r#3, dims = [1, 0] : (tensor<3x3xf32>) -> tensor<3x3xf32>
  %vv = stablehlo.dot_general %r#3, %vt, contracting_dims = [1] x [0] : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  check.expect_almost_eq_const %uu, dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf32>
  check.expect_almost_eq_const %vv, dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf32>
  %usb = stablehlo.broadcast_in_dim %r#1, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
  %us = stablehlo.multiply %r#2, %usb : tensor<4x3xf32>
  %p = stablehlo.dot_general %us, %r#3, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  check.expect_almost_eq_const %p, dense<[[2.0, -2.5, 0.5], [-0.5, -0.5, -0.25], [-2.0, -0.25, -0.75], [3.25, 0.25, -0.25]]> : tensor<4x3xf32>
  return
}

// -----

// More columns than rows, U and V square.
func.func @singular_vectors_square() {
  %a = stablehlo.constant dense<[[-0.25, -0.75, -1.0, -0.5, 0.5], [-0.25, 1.0, -0.25, 0.0, 1.5], [0.5, -0.5, -0.25, 0.5, 2.0]]> : tensor<3x5xf64>
  %r:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%a) {mhlo.backend_config = {mode = 65 : ui8}} : (tensor<3x5xf64>) -> (tensor<3x5xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<5x5xf64>, tensor<i32>)
  check.expect_almost_eq_const %r#1, dense<[2.6327935501688895, 1.4812263593511819, 1.0894340707690113]> : tensor<3xf64>
  check.expect_eq_const %r#4, dense<0> : tensor<i32>
  %ut = stablehlo.transpose %r#2, dims = [1, 0] : (tensor<3x3xf64>) -> tensor<3x3xf64>
  %uu = stablehlo.dot_general %ut, %r#2, contracting_dims = [1] x [0] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
  %vt = stablehlo.transpose %r#3, dims = [1, 0] : (tensor<5x5xf64>) -> tensor<5x5xf64>
  %vv = stablehlo.dot_general %r#3, %vt, contracting_dims = [1] x [0] : (tensor<5x5xf64>, tensor<5x5xf64>) -> tensor<5x5xf64>
  check.expect_almost_eq_const %uu, dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf64>
  check.expect_almost_eq_const %vv, dense<[[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]> : tensor<5x5xf64>
  %vk = stablehlo.slice %r#3 [0:3, 0:5] : (tensor<5x5xf64>) -> tensor<3x5xf64>
  %usb = stablehlo.broadcast_in_dim %r#1, dims = [1] : (tensor<3xf64>) -> tensor<3x3xf64>
  %us = stablehlo.multiply %r#2, %usb : tensor<3x3xf64>
  %p = stablehlo.dot_general %us, %vk, contracting_dims = [1] x [0] : (tensor<3x3xf64>, tensor<3x5xf64>) -> tensor<3x5xf64>
  check.expect_almost_eq_const %p, dense<[[-0.25, -0.75, -1.0, -0.5, 0.5], [-0.25, 1.0, -0.25, 0.0, 1.5], [0.5, -0.5, -0.25, 0.5, 2.0]]> : tensor<3x5xf64>
  return
}

// -----

// Ranks 1, 0 and 1: the vectors of singular values 0 are orthonormal too.
func.func @singular_vectors_of_deficient_ranks() {
  %a = stablehlo.constant dense<[[[1.0, 1.0, 2.0], [2.0, 2.0, 4.0], [-1.0, -1.0, -2.0], [0.5, 0.5, 1.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]> : tensor<3x4x3xf32>
  %r:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {mhlo.backend_config = {mode = 65 : ui8}} : (tensor<3x4x3xf32>) -> (tensor<3x4x3xf32>, tensor<3x3xf32>, tensor<3x4x4xf32>, tensor<3x3x3xf32>, tensor<3xi32>)
  check.expect_almost_eq_const %r#1, dense<[[6.123724356957946, 5.556688222427578e-16, 3.488017153351621e-48], [0.0, 0.0, 0.0], [3.4641016151377544, 7.850462293418872e-17, 3.2661870368647187e-49]]> : tensor<3x3xf32>
  check.expect_eq_const %r#4, dense<[0, 0, 0]> : tensor<3xi32>
  %ut = stablehlo.transpose %r#2, dims = [0, 2, 1] : (tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  %uu = stablehlo.dot_general %ut, %r#2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x4x4xf32>, tensor<3x4x4xf32>) -> tensor<3x4x4xf32>
  %vt = stablehlo.transpose %r#3, dims = [0, 2, 1] : (tensor<3x3x3xf32>) -> tensor<3x3x3xf32>
  %vv = stablehlo.dot_general %r#3, %vt, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x3x3xf32>, tensor<3x3x3xf32>) -> tensor<3x3x3xf32>
  check.expect_almost_eq_const %uu, dense<[[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]]> : tensor<3x4x4xf32>
  check.expect_almost_eq_const %vv, dense<[[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]> : tensor<3x3x3xf32>
  %uk = stablehlo.slice %r#2 [0:3, 0:4, 0:3] : (tensor<3x4x4xf32>) -> tensor<3x4x3xf32>
  %usb = stablehlo.broadcast_in_dim %r#1, dims = [0, 2] : (tensor<3x3xf32>) -> tensor<3x4x3xf32>
  %us = stablehlo.multiply %uk, %usb : tensor<3x4x3xf32>
  %p = stablehlo.dot_general %us, %r#3, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x4x3xf32>, tensor<3x3x3xf32>) -> tensor<3x4x3xf32>
  check.expect_almost_eq_const %p, dense<[[[1.0, 1.0, 2.0], [2.0, 2.0, 4.0], [-1.0, -1.0, -2.0], [0.5, 0.5, 1.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]]> : tensor<3x4x3xf32>
  return
}

// -----

// Complex matrices have real singular values.
func.func @singular_vectors_of_complex_matrices() {
  %a = stablehlo.constant dense<[[(-0.25, -1.75), (-0.25, 0.25), (1.0, 0.75), (-1.0, -0.5)], [(-0.25, -1.0), (1.0, 0.0), (0.5, 0.0), (0.0, 1.5)], [(0.75, 0.75), (-2.75, 0.25), (1.0, 1.0), (-1.0, -0.25)]]> : tensor<3x4xcomplex<f32>>
  %r:5 = stablehlo.custom_call @lapack_cgesdd_ffi(%a) {mhlo.backend_config = {mode = 83 : ui8}} : (tensor<3x4xcomplex<f32>>) -> (tensor<3x4xcomplex<f32>>, tensor<3xf32>, tensor<3x3xcomplex<f32>>, tensor<3x4xcomplex<f32>>, tensor<i32>)
  check.expect_almost_eq_const %r#1, dense<[3.911465228874064, 2.3612894272787757, 1.2499007976358127]> : tensor<3xf32>
  check.expect_eq_const %r#4, dense<0> : tensor<i32>
  %utt = stablehlo.transpose %r#2, dims = [1, 0] : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>>
  %utr = stablehlo.real %utt : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xf32>
  %uti = stablehlo.imag %utt : (tensor<3x3xcomplex<f32>>) -> tensor<3x3xf32>
  %utn = stablehlo.negate %uti : tensor<3x3xf32>
  %ut = stablehlo.complex %utr, %utn : tensor<3x3xcomplex<f32>>
  %uu = stablehlo.dot_general %ut, %r#2, contracting_dims = [1] x [0] : (tensor<3x3xcomplex<f32>>, tensor<3x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>>
  %vtt = stablehlo.transpose %r#3, dims = [1, 0] : (tensor<3x4xcomplex<f32>>) -> tensor<4x3xcomplex<f32>>
  %vtr = stablehlo.real %vtt : (tensor<4x3xcomplex<f32>>) -> tensor<4x3xf32>
  %vti = stablehlo.imag %vtt : (tensor<4x3xcomplex<f32>>) -> tensor<4x3xf32>
  %vtn = stablehlo.negate %vti : tensor<4x3xf32>
  %vt = stablehlo.complex %vtr, %vtn : tensor<4x3xcomplex<f32>>
  %vv = stablehlo.dot_general %r#3, %vt, contracting_dims = [1] x [0] : (tensor<3x4xcomplex<f32>>, tensor<4x3xcomplex<f32>>) -> tensor<3x3xcomplex<f32>>
  check.expect_almost_eq_const %uu, dense<[[(1.0, 0.0), (0.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0), (1.0, 0.0)]]> : tensor<3x3xcomplex<f32>>
  check.expect_almost_eq_const %vv, dense<[[(1.0, 0.0), (0.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0), (1.0, 0.0)]]> : tensor<3x3xcomplex<f32>>
  %usb = stablehlo.broadcast_in_dim %r#1, dims = [1] : (tensor<3xf32>) -> tensor<3x3xf32>
  %usc = stablehlo.convert %usb : (tensor<3x3xf32>) -> tensor<3x3xcomplex<f32>>
  %us = stablehlo.multiply %r#2, %usc : tensor<3x3xcomplex<f32>>
  %p = stablehlo.dot_general %us, %r#3, contracting_dims = [1] x [0] : (tensor<3x3xcomplex<f32>>, tensor<3x4xcomplex<f32>>) -> tensor<3x4xcomplex<f32>>
  check.expect_almost_eq_const %p, dense<[[(-0.25, -1.75), (-0.25, 0.25), (1.0, 0.75), (-1.0, -0.5)], [(-0.25, -1.0), (1.0, 0.0), (0.5, 0.0), (0.0, 1.5)], [(0.75, 0.75), (-2.75, 0.25), (1.0, 1.0), (-1.0, -0.25)]]> : tensor<3x4xcomplex<f32>>
  return
}

// -----

// Without vectors.
func.func @singular_values_alone() {
  %a = stablehlo.constant dense<[[[-1.0, 0.5, 0.5, -0.25], [-0.75, 0.25, -2.5, 0.75], [0.5, -1.75, 0.0, -1.0], [0.75, -2.0, -1.0, 0.75], [1.25, -2.25, -0.5, 0.25]], [[-0.5, 1.5, -1.25, 0.25], [-1.0, 1.5, -0.0, -0.25], [-1.75, 1.75, 0.75, 0.75], [1.25, 0.25, -0.75, -0.75], [-0.75, 1.25, -1.5, -0.5]]]> : tensor<2x5x4xf64>
  %r:5 = stablehlo.custom_call @lapack_dgesdd_ffi(%a) {mhlo.backend_config = {mode = 78 : ui8}} : (tensor<2x5x4xf64>) -> (tensor<2x5x4xf64>, tensor<2x4xf64>, tensor<2x5x5xf64>, tensor<2x4x4xf64>, tensor<2xi32>)
  check.expect_almost_eq_const %r#1, dense<[[4.030481510851737, 2.8955315226730276, 1.156190159955853, 0.639797081823898], [3.7878516258190107, 2.5474494768533287, 0.8807972348887962, 0.6703562147636373]]> : tensor<2x4xf64>
  check.expect_eq_const %r#4, dense<[0, 0]> : tensor<2xi32>
  return
}

// -----

// The other routine for the same; an odd number of columns.
func.func @singular_vectors_by_gesvd() {
  %a = stablehlo.constant dense<[[-0.25, 0.25, 0.5, -1.25, -1.75, -0.0, 1.25, 0.75, 0.25], [-0.25, 0.25, -0.25, 0.75, -0.75, 0.25, -0.0, 0.5, 0.25], [2.5, 1.5, 1.5, -2.0, -0.25, -0.5, 0.5, -2.25, 1.25], [1.0, -1.25, -1.0, -0.75, 0.0, 0.75, 2.0, -0.25, 0.75], [0.25, 1.75, 0.75, 1.25, -1.0, -0.25, -0.75, 1.5, 0.75], [-0.25, -0.5, 0.5, -0.75, -1.0, 0.5, 2.5, -0.25, -0.5], [-1.25, -1.25, 0.5, 0.75, 0.0, 0.25, 0.0, 0.25, -1.5], [-0.5, 0.0, -0.75, -0.5, -0.75, -0.25, 0.75, -0.5, -0.25], [0.75, 0.75, 1.75, -2.0, 0.75, -0.5, 0.25, 0.75, 1.0]]> : tensor<9x9xf64>
  %r:5 = stablehlo.custom_call @lapack_dgesvd_ffi(%a) {mhlo.backend_config = {mode = 65 : ui8}} : (tensor<9x9xf64>) -> (tensor<9x9xf64>, tensor<9xf64>, tensor<9x9xf64>, tensor<9x9xf64>, tensor<i32>)
  check.expect_almost_eq_const %r#1, dense<[5.7180362896847035, 4.517593720090641, 3.4033142215283596, 2.514894337556399, 2.1601306438484187, 1.4379287425435978, 0.6541698561898472, 0.2388434016880781, 0.1392081610846945]> : tensor<9xf64>
  check.expect_eq_const %r#4, dense<0> : tensor<i32>
  %ut = stablehlo.transpose %r#2, dims = [1, 0] : (tensor<9x9xf64>) -> tensor<9x9xf64>
  %uu = stablehlo.dot_general %ut, %r#2, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9x9xf64>) -> tensor<9x9xf64>
  %vt = stablehlo.transpose %r#3, dims = [1, 0] : (tensor<9x9xf64>) -> tensor<9x9xf64>
  %vv = stablehlo.dot_general %r#3, %vt, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9x9xf64>) -> tensor<9x9xf64>
  check.expect_almost_eq_const %uu, dense<[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]> : tensor<9x9xf64>
  check.expect_almost_eq_const %vv, dense<[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]> : tensor<9x9xf64>
  %usb = stablehlo.broadcast_in_dim %r#1, dims = [1] : (tensor<9xf64>) -> tensor<9x9xf64>
  %us = stablehlo.multiply %r#2, %usb : tensor<9x9xf64>
  %p = stablehlo.dot_general %us, %r#3, contracting_dims = [1] x [0] : (tensor<9x9xf64>, tensor<9x9xf64>) -> tensor<9x9xf64>
  check.expect_almost_eq_const %p, dense<[[-0.25, 0.25, 0.5, -1.25, -1.75, -0.0, 1.25, 0.75, 0.25], [-0.25, 0.25, -0.25, 0.75, -0.75, 0.25, -0.0, 0.5, 0.25], [2.5, 1.5, 1.5, -2.0, -0.25, -0.5, 0.5, -2.25, 1.25], [1.0, -1.25, -1.0, -0.75, 0.0, 0.75, 2.0, -0.25, 0.75], [0.25, 1.75, 0.75, 1.25, -1.0, -0.25, -0.75, 1.5, 0.75], [-0.25, -0.5, 0.5, -0.75, -1.0, 0.5, 2.5, -0.25, -0.5], [-1.25, -1.25, 0.5, 0.75, 0.0, 0.25, 0.0, 0.25, -1.5], [-0.5, 0.0, -0.75, -0.5, -0.75, -0.25, 0.75, -0.5, -0.25], [0.75, 0.75, 1.75, -2.0, 0.75, -0.5, 0.25, 0.75, 1.0]]> : tensor<9x9xf64>
  return
}

// -----

// Of the second matrix four eigenvalues are 0.
func.func @eigenvectors_of_symmetric_matrices() {
  %a = stablehlo.constant dense<[[[2.0, 1.0, 1.5, 0.25, -1.0], [1.0, -1.0, 1.75, 1.0, 1.25], [1.5, 1.75, 0.5, 2.25, -1.25], [0.25, 1.0, 2.25, -1.5, -0.25], [-1.0, 1.25, -1.25, -0.25, 0.5]], [[2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0]]]> : tensor<2x5x5xf64>
  %r:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<2x5x5xf64>) -> (tensor<2x5x5xf64>, tensor<2x5xf64>, tensor<2xi32>)
  check.expect_almost_eq_const %r#1, dense<[[-3.22824248466498, -2.7683635196532332, 0.5867650774747607, 1.3569200352590203, 4.552920891584429], [-1.0446882337723132e-17, -1.395643395633082e-32, 6.690980635076563e-50, 1.7698033603149656e-16, 10.0]]> : tensor<2x5xf64>
  %vt = stablehlo.transpose %r#0, dims = [0, 2, 1] : (tensor<2x5x5xf64>) -> tensor<2x5x5xf64>
  %vsb = stablehlo.broadcast_in_dim %r#1, dims = [0, 2] : (tensor<2x5xf64>) -> tensor<2x5x5xf64>
  %vs = stablehlo.multiply %r#0, %vsb : tensor<2x5x5xf64>
  %p = stablehlo.dot_general %vs, %vt, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x5x5xf64>, tensor<2x5x5xf64>) -> tensor<2x5x5xf64>
  check.expect_almost_eq_const %p, dense<[[[2.0, 1.0, 1.5, 0.25, -1.0], [1.0, -1.0, 1.75, 1.0, 1.25], [1.5, 1.75, 0.5, 2.25, -1.25], [0.25, 1.0, 2.25, -1.5, -0.25], [-1.0, 1.25, -1.25, -0.25, 0.5]], [[2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0, 2.0]]]> : tensor<2x5x5xf64>
  check.expect_eq_const %r#2, dense<[0, 0]> : tensor<2xi32>
  return
}

// -----

// An even number of columns.
func.func @eigenvectors_of_a_larger_matrix() {
  %a = stablehlo.constant dense<[[-2.5, 0.75, 3.0, 0.25, -0.5, 0.5, -2.75, 2.25, -1.75, -3.0], [0.75, -0.5, 0.25, -1.75, 1.0, 2.0, -1.0, -1.75, 0.25, -1.75], [3.0, 0.25, -2.0, 0.0, 1.0, 2.5, 1.0, 2.0, -0.25, -0.0], [0.25, -1.75, 0.0, 0.5, 1.25, -1.5, 1.0, -0.0, -1.75, 0.0], [-0.5, 1.0, 1.0, 1.25, 2.5, 1.5, 1.5, 1.75, -0.25, 0.25], [0.5, 2.0, 2.5, -1.5, 1.5, 4.0, 0.25, 0.0, 0.5, 1.75], [-2.75, -1.0, 1.0, 1.0, 1.5, 0.25, -1.0, -2.0, -2.0, -1.0], [2.25, -1.75, 2.0, -0.0, 1.75, 0.0, -2.0, -1.0, 1.25, -1.0], [-1.75, 0.25, -0.25, -1.75, -0.25, 0.5, -2.0, 1.25, 3.0, -0.5], [-3.0, -1.75, -0.0, 0.0, 0.25, 1.75, -1.0, -1.0, -0.5, -0.5]]> : tensor<10x10xf32>
  %r:3 = stablehlo.custom_call @lapack_ssyevd_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<10x10xf32>) -> (tensor<10x10xf32>, tensor<10xf32>, tensor<i32>)
  check.expect_almost_eq_const %r#1, dense<[-8.110319229116179, -5.550187139785454, -3.740715840366592, -1.479268729438297, -0.7514217316403323, 1.5936073276297023, 3.041253130609079, 4.603147178307059, 5.67456765508184, 7.21933737871917]> : tensor<10xf32>
  %vt = stablehlo.transpose %r#0, dims = [1, 0] : (tensor<10x10xf32>) -> tensor<10x10xf32>
  %vsb = stablehlo.broadcast_in_dim %r#1, dims = [1] : (tensor<10xf32>) -> tensor<10x10xf32>
  %vs = stablehlo.multiply %r#0, %vsb : tensor<10x10xf32>
  %p = stablehlo.dot_general %vs, %vt, contracting_dims = [1] x [0] : (tensor<10x10xf32>, tensor<10x10xf32>) -> tensor<10x10xf32>
  check.expect_almost_eq_const %p, dense<[[-2.5, 0.75, 3.0, 0.25, -0.5, 0.5, -2.75, 2.25, -1.75, -3.0], [0.75, -0.5, 0.25, -1.75, 1.0, 2.0, -1.0, -1.75, 0.25, -1.75], [3.0, 0.25, -2.0, 0.0, 1.0, 2.5, 1.0, 2.0, -0.25, -0.0], [0.25, -1.75, 0.0, 0.5, 1.25, -1.5, 1.0, -0.0, -1.75, 0.0], [-0.5, 1.0, 1.0, 1.25, 2.5, 1.5, 1.5, 1.75, -0.25, 0.25], [0.5, 2.0, 2.5, -1.5, 1.5, 4.0, 0.25, 0.0, 0.5, 1.75], [-2.75, -1.0, 1.0, 1.0, 1.5, 0.25, -1.0, -2.0, -2.0, -1.0], [2.25, -1.75, 2.0, -0.0, 1.75, 0.0, -2.0, -1.0, 1.25, -1.0], [-1.75, 0.25, -0.25, -1.75, -0.25, 0.5, -2.0, 1.25, 3.0, -0.5], [-3.0, -1.75, -0.0, 0.0, 0.25, 1.75, -1.0, -1.0, -0.5, -0.5]]> : tensor<10x10xf32>
  check.expect_eq_const %r#2, dense<0> : tensor<i32>
  return
}

// -----

// Complex vectors, real eigenvalues.
func.func @eigenvectors_of_a_hermitian_matrix() {
  %a = stablehlo.constant dense<[[(-2.5, 0.0), (-2.5, 0.75), (0.5, 0.0), (-1.75, -1.5)], [(-2.5, -0.75), (1.5, 0.0), (-0.75, -1.0), (4.0, 1.0)], [(0.5, 0.0), (-0.75, 1.0), (1.5, 0.0), (-0.5, -0.5)], [(-1.75, 1.5), (4.0, -1.0), (-0.5, 0.5), (-6.0, 0.0)]]> : tensor<4x4xcomplex<f64>>
  %r:3 = stablehlo.custom_call @lapack_zheevd_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<4x4xcomplex<f64>>) -> (tensor<4x4xcomplex<f64>>, tensor<4xf64>, tensor<i32>)
  check.expect_almost_eq_const %r#1, dense<[-8.337085242186848, -3.4637642497782823, 1.1169554535823154, 5.183894038382817]> : tensor<4xf64>
  %vtt = stablehlo.transpose %r#0, dims = [1, 0] : (tensor<4x4xcomplex<f64>>) -> tensor<4x4xcomplex<f64>>
  %vtr = stablehlo.real %vtt : (tensor<4x4xcomplex<f64>>) -> tensor<4x4xf64>
  %vti = stablehlo.imag %vtt : (tensor<4x4xcomplex<f64>>) -> tensor<4x4xf64>
  %vtn = stablehlo.negate %vti : tensor<4x4xf64>
  %vt = stablehlo.complex %vtr, %vtn : tensor<4x4xcomplex<f64>>
  %vsb = stablehlo.broadcast_in_dim %r#1, dims = [1] : (tensor<4xf64>) -> tensor<4x4xf64>
  %vsc = stablehlo.convert %vsb : (tensor<4x4xf64>) -> tensor<4x4xcomplex<f64>>
  %vs = stablehlo.multiply %r#0, %vsc : tensor<4x4xcomplex<f64>>
  %p = stablehlo.dot_general %vs, %vt, contracting_dims = [1] x [0] : (tensor<4x4xcomplex<f64>>, tensor<4x4xcomplex<f64>>) -> tensor<4x4xcomplex<f64>>
  check.expect_almost_eq_const %p, dense<[[(-2.5, 0.0), (-2.5, 0.75), (0.5, 0.0), (-1.75, -1.5)], [(-2.5, -0.75), (1.5, 0.0), (-0.75, -1.0), (4.0, 1.0)], [(0.5, 0.0), (-0.75, 1.0), (1.5, 0.0), (-0.5, -0.5)], [(-1.75, 1.5), (4.0, -1.0), (-0.5, 0.5), (-6.0, 0.0)]]> : tensor<4x4xcomplex<f64>>
  check.expect_eq_const %r#2, dense<0> : tensor<i32>
  return
}

// -----

// Q^H Q, and Q Q^H A, which is A.
func.func @qr_s() {
  %a = stablehlo.constant dense<[[2.25, -0.25, -1.0], [0.75, -0.5, 0.25], [0.25, 1.25, -0.75], [-0.0, -2.5, -1.0]]> : tensor<4x3xf32>
  %r:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  %q = stablehlo.custom_call @lapack_sorgqr_ffi(%r#0, %r#1) {mhlo.backend_config = {}} : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %qt = stablehlo.transpose %q, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %qq = stablehlo.dot_general %qt, %q, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  check.expect_almost_eq_const %qq, dense<[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]> : tensor<3x3xf32>
  %ra = stablehlo.dot_general %qt, %a, contracting_dims = [1] x [0] : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %p = stablehlo.dot_general %q, %ra, contracting_dims = [1] x [0] : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  check.expect_almost_eq_const %p, dense<[[2.25, -0.25, -1.0], [0.75, -0.5, 0.25], [0.25, 1.25, -0.75], [-0.0, -2.5, -1.0]]> : tensor<4x3xf32>
  return
}

// -----

// Q^H Q, and Q Q^H A, which is A.
func.func @qr_z() {
  %a = stablehlo.constant dense<[[(1.5, 0.5), (-0.75, 0.0), (-0.75, -0.5)], [(-1.25, -0.25), (0.5, 0.75), (0.25, -0.25)], [(-1.25, 1.0), (0.75, 0.5), (0.25, 1.25)], [(0.75, 0.75), (-0.75, 0.0), (1.75, -2.0)]]> : tensor<4x3xcomplex<f64>>
  %r:2 = stablehlo.custom_call @lapack_zgeqrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<4x3xcomplex<f64>>) -> (tensor<4x3xcomplex<f64>>, tensor<3xcomplex<f64>>)
  %q = stablehlo.custom_call @lapack_zungqr_ffi(%r#0, %r#1) {mhlo.backend_config = {}} : (tensor<4x3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> tensor<4x3xcomplex<f64>>
  %qtt = stablehlo.transpose %q, dims = [1, 0] : (tensor<4x3xcomplex<f64>>) -> tensor<3x4xcomplex<f64>>
  %qtr = stablehlo.real %qtt : (tensor<3x4xcomplex<f64>>) -> tensor<3x4xf64>
  %qti = stablehlo.imag %qtt : (tensor<3x4xcomplex<f64>>) -> tensor<3x4xf64>
  %qtn = stablehlo.negate %qti : tensor<3x4xf64>
  %qt = stablehlo.complex %qtr, %qtn : tensor<3x4xcomplex<f64>>
  %qq = stablehlo.dot_general %qt, %q, contracting_dims = [1] x [0] : (tensor<3x4xcomplex<f64>>, tensor<4x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  check.expect_almost_eq_const %qq, dense<[[(1.0, 0.0), (0.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (1.0, 0.0), (0.0, 0.0)], [(0.0, 0.0), (0.0, 0.0), (1.0, 0.0)]]> : tensor<3x3xcomplex<f64>>
  %ra = stablehlo.dot_general %qt, %a, contracting_dims = [1] x [0] : (tensor<3x4xcomplex<f64>>, tensor<4x3xcomplex<f64>>) -> tensor<3x3xcomplex<f64>>
  %p = stablehlo.dot_general %q, %ra, contracting_dims = [1] x [0] : (tensor<4x3xcomplex<f64>>, tensor<3x3xcomplex<f64>>) -> tensor<4x3xcomplex<f64>>
  check.expect_almost_eq_const %p, dense<[[(1.5, 0.5), (-0.75, 0.0), (-0.75, -0.5)], [(-1.25, -0.25), (0.5, 0.75), (0.25, -0.25)], [(-1.25, 1.0), (0.75, 0.5), (0.25, 1.25)], [(0.75, 0.75), (-0.75, 0.0), (1.75, -2.0)]]> : tensor<4x3xcomplex<f64>>
  return
}

// -----

// With pivots that must be exchanged.
func.func @tridiagonal_systems() {
  %l = stablehlo.constant dense<[[0.0, 0.75, 0.25, 0.5, -0.5], [0.0, -1.0, 1.25, 0.25, -0.5]]> : tensor<2x5xf64>
  %d = stablehlo.constant dense<[[0.25, 0.25, 0.25, 0.25, 0.25], [0.75, 0.75, 0.0, 0.375, 0.625]]> : tensor<2x5xf64>
  %u = stablehlo.constant dense<[[0.5, 0.75, -0.75, 1.5, 0.0], [2.0, -2.0, 0.75, 1.0, 0.0]]> : tensor<2x5xf64>
  %b = stablehlo.constant dense<[[[0.375, -0.0625], [0.3125, 1.1875], [-0.875, 0.125], [0.1875, 0.875], [-0.625, 0.0625]], [[-1.75, -0.75], [0.0625, 2.0], [-1.5625, 0.375], [-1.25, 0.8125], [-0.625, 0.21875]]]> : tensor<2x5x2xf64>
  %r:5 = stablehlo.custom_call @lapack_dgtsv_ffi(%l, %d, %u, %b) {mhlo.backend_config = {}} : (tensor<2x5xf64>, tensor<2x5xf64>, tensor<2x5xf64>, tensor<2x5x2xf64>) -> (tensor<2x5xf64>, tensor<2x5xf64>, tensor<2x5xf64>, tensor<2x5x2xf64>, tensor<2xi32>)
  check.expect_almost_eq_const %r#3, dense<[[[0.5, 0.75], [0.5, -0.5], [-0.25, 1.0], [1.25, 0.0], [0.0, 0.25]], [[1.0, -1.0], [-1.25, 0.0], [-1.0, -0.5], [0.0, 0.5], [-1.0, 0.75]]]> : tensor<2x5x2xf64>
  check.expect_eq_const %r#4, dense<[0, 0]> : tensor<2xi32>
  return
}
