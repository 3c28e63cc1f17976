// Among one replica each has its own data only.
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @all_gather() {
  %x = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.5]]> : tensor<2x2xf32>
  %y = "stablehlo.all_gather"(%x) <{all_gather_dim = 1 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = stablehlo.add %y, %x : tensor<2x2xf32>
  check.expect_eq_const %z, dense<[[2.0, -4.0], [6.0, 9.0]]> : tensor<2x2xf32>
  return
}
}

// -----

// Among one replica each has its own data only.
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @all_reduce() {
  %x = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.5]]> : tensor<2x2xf32>
  %y = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = stablehlo.add %y, %x : tensor<2x2xf32>
  check.expect_eq_const %z, dense<[[2.0, -4.0], [6.0, 9.0]]> : tensor<2x2xf32>
  return
}
}

// -----

// Among one replica each has its own data only.
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @reduce_scatter() {
  %x = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.5]]> : tensor<2x2xf32>
  %y = "stablehlo.reduce_scatter"(%x) <{scatter_dimension = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = stablehlo.add %y, %x : tensor<2x2xf32>
  check.expect_eq_const %z, dense<[[2.0, -4.0], [6.0, 9.0]]> : tensor<2x2xf32>
  return
}
}

// -----

// Among one replica each has its own data only.
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @all_to_all() {
  %x = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.5]]> : tensor<2x2xf32>
  %y = "stablehlo.all_to_all"(%x) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 1 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = stablehlo.add %y, %x : tensor<2x2xf32>
  check.expect_eq_const %z, dense<[[2.0, -4.0], [6.0, 9.0]]> : tensor<2x2xf32>
  return
}
}

// -----

// Among one replica each has its own data only.
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @collective_broadcast() {
  %x = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.5]]> : tensor<2x2xf32>
  %y = "stablehlo.collective_broadcast"(%x) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = stablehlo.add %y, %x : tensor<2x2xf32>
  check.expect_eq_const %z, dense<[[2.0, -4.0], [6.0, 9.0]]> : tensor<2x2xf32>
  return
}
}

// -----

// Among one replica each has its own data only.
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @collective_permute() {
  %x = stablehlo.constant dense<[[1.0, -2.0], [3.0, 4.5]]> : tensor<2x2xf32>
  %y = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>}> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = stablehlo.add %y, %x : tensor<2x2xf32>
  check.expect_eq_const %z, dense<[[2.0, -4.0], [6.0, 9.0]]> : tensor<2x2xf32>
  return
}
}

// -----

// The one replica and the one partition have number 0.
module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
func.func @numbers_of_the_device() {
  %r = stablehlo.replica_id : tensor<ui32>
  %p = stablehlo.partition_id : tensor<ui32>
  %n = stablehlo.constant dense<[5, 6]> : tensor<2xui32>
  %b = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<ui32>) -> tensor<2xui32>
  %q = stablehlo.broadcast_in_dim %p, dims = [] : (tensor<ui32>) -> tensor<2xui32>
  %s = stablehlo.add %n, %b : tensor<2xui32>
  %u = stablehlo.subtract %s, %q : tensor<2xui32>
  check.expect_eq_const %u, dense<[5, 6]> : tensor<2xui32>
  return
}
}
