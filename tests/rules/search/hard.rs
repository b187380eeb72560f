//! Requests that cannot be met, or only just, take a number of steps that grows no faster than a polynomial of
//! their size: for each constraint, alone and together with others.

use std::fmt::Write;
use std::ops::Range;

use berth::search::explain::explain;
use berth::search::fit::{CountParameters, Excluded, fit};
use berth::search::trees::trees;
use berth::search::{Next, Request, find};

use crate::search::cloud::{Cloud, request};

/// A family of requests that grow with their size. Each cloud lacks one thing, unless it is near: then it has just
/// enough.
struct Family {
    name: &'static str,
    /// The cloud and the query for a size.
    of: fn(usize, bool) -> (String, String),
    /// The steps are at most [`STEPS_EACH`] times this power of the size.
    degree: u32,
}

/// The factor of the polynomials.
const STEPS_EACH: u64 = 200;
const SIZES: [usize; 5] = [4, 6, 8, 12, 24];
/// Beyond these sizes, some hosts take more than the fixed amount of work for one host that an explanation may take.
const SIZES_OF_HOSTS: [usize; 4] = [4, 6, 8, 12];
/// Below these sizes, some trees have so few combinations that they are left to the planner.
const SIZES_OF_TREES: [usize; 2] = [8, 12];

const FAMILIES: [Family; 21] = [
    family("one set", one_set, 4),
    family("one set, apart", one_set_apart, 4),
    family("overlapping sets", overlapping_sets, 4),
    family("overlapping sets, apart", overlapping_sets_apart, 4),
    family("a chain of sets", chain_of_sets, 4),
    family("sets of one ancestor", sets_of_one_ancestor, 4),
    family("pairs", pairs, 4),
    family("pairs, apart", pairs_apart, 4),
    family("pairs that differ", pairs_that_differ, 4),
    family("without resources", without_resources, 4),
    family("overlapping sets without resources", overlapping_without_resources, 4),
    family("traits of a subtree", traits_of_a_subtree, 4),
    family("devices of two kinds", devices_of_two_kinds, 4),
    family("the trait of a device of a set", trait_of_a_device_of_a_set, 4),
    family("the trait of a device, apart", trait_of_a_device_apart, 4),
    family("traits together", traits_together, 5),
    family("one provider of a tree, apart", one_provider_of_a_tree_apart, 4),
    family("one provider of a tree", one_provider_of_a_tree, 4),
    family("pairs that share", pairs_that_share, 4),
    family("amounts", amounts, 4),
    family("amounts of a set", amounts_of_a_set, 4),
];

const fn family(
    name: &'static str,
    of: fn(usize, bool) -> (String, String),
    degree: u32,
) -> Family {
    Family { name, of, degree }
}

/// Texts of numbers, one behind the other.
fn joined(numbers: Range<usize>, text: impl Fn(usize) -> String) -> String {
    numbers.map(text).collect::<Vec<_>>().concat()
}

/// Numbered groups of a query: `resources_a0=...&resources_a1=...`, from a form with `#` for the suffix.
fn groups(prefix: &str, count: usize, form: &str) -> String {
    joined(0..count, |nth| format!("&{}", form.replace('#', &format!("_{prefix}{nth}"))))
}

/// Their suffixes, as `same_subtree` lists them.
fn suffixes(prefix: &str, numbers: Range<usize>) -> String {
    joined(numbers, |nth| format!(",_{prefix}{nth}"))
}

/// Returns two NUMA nodes, each with a number of providers of one kind below it.
fn nodes(first: usize, second: usize, kind: &str) -> String {
    let mut lines = "cn; VCPU:64\n a < cn; NET_BW:9\n b < cn; NET_BW:9\n".to_owned();
    for (node, count) in [("a", first), ("b", second)] {
        for nth in 0..count {
            writeln!(lines, "{node}{nth} < {node}; {kind}").unwrap();
        }
    }
    lines
}

fn one_set(n: usize, near: bool) -> (String, String) {
    let wanted = groups("g", n + 1, "resources#=CUSTOM_VF:1");
    let set = format!("&resources_m=NET_BW:1&same_subtree=_m{}", suffixes("g", 0..n + 1));
    (nodes(n, n + usize::from(near), "CUSTOM_VF:1"), format!("resources=VCPU:1{wanted}{set}"))
}

fn one_set_apart(n: usize, near: bool) -> (String, String) {
    let (_, query) = one_set(n, near);
    (nodes(n, n + usize::from(near), "CUSTOM_VF:50"), format!("{query}&group_policy=isolate"))
}

/// Two sets have one group in common, so both are on one node.
fn overlapping_sets(n: usize, near: bool) -> (String, String) {
    let wanted = groups("g", n + 1, "resources#=CUSTOM_VF:1");
    let tops = "&resources_m=NET_BW:1&resources_w=NET_BW:1";
    let (first, second) = (suffixes("g", 0..n / 2 + 1), suffixes("g", n / 2..n + 1));
    let sets = format!("&same_subtree=_m{first}&same_subtree=_w{second}");
    let query = format!("resources=VCPU:1{wanted}{tops}{sets}");
    (nodes(n, n + usize::from(near), "CUSTOM_VF:1"), query)
}

fn overlapping_sets_apart(n: usize, near: bool) -> (String, String) {
    let (_, query) = overlapping_sets(n, near);
    let query = query.replace("&resources_w=NET_BW:1", "&resources_w=MEMORY_MB:1");
    let mut lines = nodes(n, n + usize::from(near), "CUSTOM_VF:50");
    lines = lines.replace("NET_BW:9", "NET_BW:9 MEMORY_MB:9");
    // Nothing on the nodes themselves: `_w` is on a child of a node with children of its own.
    lines = lines.replace("a < cn; NET_BW:9 MEMORY_MB:9", "a < cn; MEMORY_MB:9\n x < a; NET_BW:9");
    lines = lines.replace("b < cn; NET_BW:9 MEMORY_MB:9", "b < cn; MEMORY_MB:9\n y < b; NET_BW:9");
    lines = lines.replace(" < a; CUSTOM", " < x; CUSTOM").replace(" < b; CUSTOM", " < y; CUSTOM");
    (lines, format!("{query}&group_policy=isolate"))
}

/// Each set has a group in common with the next, so all are on one node; and each node lacks the trait that one of
/// the groups wants.
fn chain_of_sets(n: usize, near: bool) -> (String, String) {
    let mut lines = "cn; VCPU:64\n".to_owned();
    for node in 0..n {
        writeln!(lines, "m{node} < cn; NET_BW:99").unwrap();
        for device in (0..n).filter(|device| *device != node || near && node + 1 == n) {
            writeln!(lines, "d{node}x{device} < m{node}; ; CUSTOM_T{device}").unwrap();
        }
    }
    let wanted = joined(0..n, |nth| format!("&required_g{nth}=CUSTOM_T{nth}"));
    let tops = groups("m", n - 1, "resources#=NET_BW:1");
    let sets = joined(0..n - 1, |it| format!("&same_subtree=_m{it},_g{it},_g{}", it + 1));
    (lines, format!("resources=VCPU:1{wanted}{tops}{sets}"))
}

/// Two sets have their ancestor in common. Each node has too few of one class.
fn sets_of_one_ancestor(n: usize, near: bool) -> (String, String) {
    let mut lines = nodes(n, n - 1 + usize::from(near), "CUSTOM_VF:1");
    for (node, count) in [("a", n - 1), ("b", n)] {
        for nth in 0..count {
            writeln!(lines, "{node}v{nth} < {node}; VGPU:1").unwrap();
        }
    }
    let wanted = groups("g", n, "resources#=CUSTOM_VF:1") + &groups("v", n, "resources#=VGPU:1");
    let (first, second) = (suffixes("g", 0..n), suffixes("v", 0..n));
    let sets = format!("&same_subtree=_m{first}&same_subtree=_m{second}");
    (lines, format!("resources=VCPU:1{wanted}&resources_m=NET_BW:1{sets}"))
}

/// Switches with a GPU and a network card each, except that the card of the first one is elsewhere.
fn switches(n: usize, near: bool, gpu: impl Fn(usize) -> String) -> String {
    let mut lines = "cn; VCPU:64\n spare < cn; SRIOV_NET_VF:1\n".to_owned();
    for nth in 0..n + usize::from(near) {
        writeln!(lines, "s{nth} < cn; ; CUSTOM_SWITCH\n g{nth} < s{nth}; VGPU:1; {}", gpu(nth))
            .unwrap();
        if nth > 0 {
            writeln!(lines, "n{nth} < s{nth}; SRIOV_NET_VF:1").unwrap();
        }
    }
    lines
}

/// Each pair has a group without resources for its switch.
fn pairs(n: usize, near: bool) -> (String, String) {
    let wanted = groups("g", n, "resources#=VGPU:1") + &groups("n", n, "resources#=SRIOV_NET_VF:1");
    let tops = groups("s", n, "required#=CUSTOM_SWITCH");
    let sets = joined(0..n, |it| format!("&same_subtree=_g{it},_n{it},_s{it}"));
    (switches(n, near, |_| String::new()), format!("resources=VCPU:1{wanted}{tops}{sets}"))
}

fn pairs_apart(n: usize, near: bool) -> (String, String) {
    let (lines, query) = pairs(n, near);
    (lines, format!("{query}&group_policy=isolate"))
}

/// Each GPU has a trait of its own, and each pair wants one of three.
fn pairs_that_differ(n: usize, near: bool) -> (String, String) {
    let (_, mut query) = pairs(n, near);
    for nth in 0..n {
        let (one, other) = ((nth + 1) % n, (nth + 2) % n);
        write!(query, "&required_g{nth}=in:CUSTOM_T{nth},CUSTOM_T{one},CUSTOM_T{other}").unwrap();
    }
    (switches(n, near, |nth| format!("CUSTOM_T{}", nth % n)), query)
}

/// Groups without resources, which must be apart.
fn without_resources(n: usize, near: bool) -> (String, String) {
    let wanted = groups("g", n + 1, "required#=HW_X");
    let set = format!("&resources_m=NET_BW:1&same_subtree=_m{}", suffixes("g", 0..n + 1));
    let query = format!("resources=VCPU:1{wanted}{set}&group_policy=isolate");
    (nodes(n, n + usize::from(near), "; HW_X"), query)
}

/// The same in two sets that overlap.
fn overlapping_without_resources(n: usize, near: bool) -> (String, String) {
    let wanted = groups("g", n + 1, "required#=HW_X");
    let (first, second) = (suffixes("g", 0..n / 2 + 1), suffixes("g", n / 2..n + 1));
    let sets = format!("&same_subtree=_m{first}&same_subtree=_m{second}");
    let query = format!("resources=VCPU:1&resources_m=NET_BW:1{wanted}{sets}&group_policy=isolate");
    (nodes(n, n + usize::from(near), "; HW_X"), query)
}

/// Groups without resources that want a trait each. The first node has the even ones, the second all but one.
fn traits_of_a_subtree(n: usize, near: bool) -> (String, String) {
    let mut lines = nodes(0, 0, "");
    for nth in 0..n {
        writeln!(lines, "x{nth} < cn; ; CUSTOM_T{nth}").unwrap();
        if nth % 2 == 0 {
            writeln!(lines, "a{nth} < a; ; CUSTOM_T{nth}").unwrap();
        }
        if nth + 1 < n || near {
            writeln!(lines, "b{nth} < b; ; CUSTOM_T{nth}").unwrap();
        }
    }
    let wanted = joined(0..n, |nth| format!("&required_g{nth}=CUSTOM_T{nth}"));
    let set = format!("&resources_m=NET_BW:1&same_subtree=_m{}", suffixes("g", 0..n));
    (lines, format!("resources=VCPU:1{wanted}{set}"))
}

/// Devices of two kinds; of one kind there are too few on each node.
fn devices_of_two_kinds(n: usize, near: bool) -> (String, String) {
    let mut lines = nodes(n, n, "CUSTOM_VF:1; HW_X");
    for nth in 0..n {
        writeln!(lines, "ay{nth} < a; CUSTOM_VF:1; HW_Y\n by{nth} < b; CUSTOM_VF:1; HW_Y").unwrap();
    }
    if near {
        lines.push_str("bx < b; CUSTOM_VF:1; HW_X\n");
    }
    let wanted = groups("g", n + 1, "resources#=CUSTOM_VF:1&required#=HW_X");
    let others = groups("h", n - 1, "resources#=CUSTOM_VF:1");
    let (first, second) = (suffixes("g", 0..n + 1), suffixes("h", 0..n - 1));
    let set = format!("&resources_m=NET_BW:1&same_subtree=_m{first}{second}");
    (lines, format!("resources=VCPU:1{wanted}{others}{set}"))
}

/// The only device with the trait that the unsuffixed group wants is needed by a set as well.
fn trait_of_a_device_of_a_set(n: usize, near: bool) -> (String, String) {
    let mut lines = nodes(n - 1, n - 1 + usize::from(near), "CUSTOM_VF:1");
    lines.push_str("ax < a; CUSTOM_VF:1; HW_X\n");
    let wanted = groups("g", n, "resources#=CUSTOM_VF:1");
    let set = format!("&resources_m=NET_BW:1&same_subtree=_m{}", suffixes("g", 0..n));
    (lines, format!("resources=VCPU:1,CUSTOM_VF:1&required=HW_X{wanted}{set}"))
}

/// The same with groups that must be apart, and no set.
fn trait_of_a_device_apart(n: usize, near: bool) -> (String, String) {
    let mut lines = nodes(n - 1 + usize::from(near), 1, "CUSTOM_VF:1");
    lines = lines.replace("b0 < b; CUSTOM_VF:1", "b0 < b; CUSTOM_VF:1; HW_Z");
    lines.push_str("ax < a; CUSTOM_VF:1; HW_X\n");
    let wanted = groups("g", n, "resources#=CUSTOM_VF:1&required#=!HW_Z");
    let unsuffixed = "resources=VCPU:1,CUSTOM_VF:1&required=HW_X";
    (lines, format!("{unsuffixed}{wanted}&group_policy=isolate"))
}

/// Providers with a trait each, and more traits wanted than classes.
fn traits_together(n: usize, near: bool) -> (String, String) {
    let mut lines = "cn\n".to_owned();
    let classes = joined(0..n, |class| format!(" CUSTOM_C{class}:9"));
    for nth in 0..=n {
        let more = if near && nth == 0 { format!("CUSTOM_T{n}") } else { String::new() };
        writeln!(lines, "p{nth} < cn;{classes}; CUSTOM_T{nth} {more}").unwrap();
    }
    let classes: Vec<String> = (0..n).map(|class| format!("CUSTOM_C{class}:1")).collect();
    let traits: Vec<String> = (0..=n).map(|nth| format!("CUSTOM_T{nth}")).collect();
    (lines, format!("resources={}&required={}", classes.join(","), traits.join(",")))
}

/// Trees of three providers that share; a candidate may use one of each.
fn sharing_trees(n: usize, kind: &str) -> String {
    let mut lines = "cn; VCPU:8; ; A\n".to_owned();
    let kind = format!("{kind}; MISC_SHARES_VIA_AGGREGATE; A");
    for nth in 0..n {
        writeln!(
            lines,
            "t{nth}\n x{nth} < t{nth}; {kind}\n y{nth} < t{nth}; {kind}\n z{nth} < t{nth}; {kind}"
        )
        .unwrap();
    }
    lines
}

fn one_provider_of_a_tree_apart(n: usize, near: bool) -> (String, String) {
    let wanted = groups("g", n + 1, "resources#=CUSTOM_VF:1");
    let lines = sharing_trees(n + usize::from(near), "CUSTOM_VF:1");
    (lines, format!("old&resources=VCPU:1{wanted}&group_policy=isolate"))
}

fn one_provider_of_a_tree(n: usize, near: bool) -> (String, String) {
    let wanted = groups("g", 2 * n + 1, "resources#=CUSTOM_VF:1");
    let lines = sharing_trees(n + usize::from(near), "CUSTOM_VF:2");
    (lines, format!("old&resources=VCPU:1{wanted}"))
}

/// Pairs at one provider each, most of them shared. The host's own provider has too little for a pair.
fn pairs_that_share(n: usize, near: bool) -> (String, String) {
    let mut lines = format!("cn; ; ; A\n own < cn; CUSTOM_VF:{}\n", 1 + usize::from(near));
    for nth in 0..n - 1 {
        writeln!(lines, "p{nth}; CUSTOM_VF:3; MISC_SHARES_VIA_AGGREGATE; A").unwrap();
    }
    let wanted = groups("g", 2 * n, "resources#=CUSTOM_VF:1");
    let sets = joined(0..n, |it| format!("&same_subtree=_g{},_g{}", 2 * it, 2 * it + 1));
    (lines, format!("{}{sets}", wanted.trim_start_matches('&')))
}

/// Threes and twos that do not go together in fours.
fn amounts(n: usize, near: bool) -> (String, String) {
    let mut lines = "cn; VCPU:8\n".to_owned();
    for nth in 0..n + usize::from(near) {
        writeln!(lines, "d{nth} < cn; CUSTOM_VF:4").unwrap();
    }
    let threes = groups("t", n - 1, "resources#=CUSTOM_VF:3");
    let twos = groups("w", 4, "resources#=CUSTOM_VF:2");
    (lines, format!("resources=VCPU:1{threes}{twos}"))
}

/// The same below one of two nodes.
fn amounts_of_a_set(n: usize, near: bool) -> (String, String) {
    let (_, query) = amounts(n, near);
    let set = format!("_m{}{}", suffixes("t", 0..n - 1), suffixes("w", 0..4));
    let lines = nodes(n, n + usize::from(near), "CUSTOM_VF:4");
    (lines, format!("{query}&resources_m=NET_BW:1&same_subtree={set}"))
}

/// Runs each request of each family in some sizes, with a limit of steps.
fn each(sizes: &[usize], mut check: impl FnMut(&str, &Cloud, &Request, bool, u64)) {
    for Family { name, of, degree } in FAMILIES {
        for (size, near) in sizes.iter().flat_map(|size| [(*size, false), (*size, true)]) {
            let (lines, query) = of(size, near);
            let name = format!("{name}, {size}{}", if near { ", near" } else { "" });
            let steps_max = STEPS_EACH * (size as u64).pow(degree);
            check(&name, &Cloud::new(&lines), &request(&query), near, steps_max);
        }
    }
}

#[test]
fn the_steps_of_a_search_are_bounded_by_a_polynomial() {
    each(&SIZES, |name, cloud, request, near, steps_max| {
        let limited = Request { limit: Some(1), ..request.clone() };
        let mut search = find(cloud.world(), &limited).unwrap();
        let mut found = 0;
        loop {
            match search.next_candidate() {
                Next::Found(_) => found += 1,
                Next::Paused => {
                    assert!(search.steps() <= steps_max, "{name}: {} steps", search.steps());
                }
                Next::Exhausted => break,
            }
        }
        assert!(search.steps() <= steps_max, "{name}: {} steps", search.steps());
        assert_eq!(found, usize::from(near), "{name}");
    });
}

/// An explanation counts the hosts that fit, and the near misses, within the same bound for each condition.
#[test]
fn each_host_is_explained() {
    each(&SIZES_OF_HOSTS, |name, cloud, request, near, steps_max| {
        let mut work = 0;
        let explained = explain(&cloud.world(), request, 10, |more| {
            work += more as u64;
            false
        });
        let Ok(explained) = explained else {
            assert!(request.groups.len() > 30, "{name}: {explained:?}");
            return;
        };
        assert_eq!(explained.undecided, 0, "{name}");
        assert_eq!(explained.fitting > 0, near, "{name}");
        let work_max = steps_max * explained.conditions.len() as u64;
        assert!(work <= work_max, "{name}: {work} numbers read");
    });
}

#[test]
fn it_is_decided_whether_a_request_fits() {
    each(&SIZES_OF_HOSTS, |name, cloud, request, near, steps_max| {
        let mut work = 0;
        let excluded = Excluded::default();
        let parameters = CountParameters { request, excluded: &excluded, names_max: 10, by: None };
        let found = fit(&cloud.world(), &parameters, |more| {
            work += more as u64;
            false
        });
        let total = found.unwrap().total;
        assert_eq!((total.at_least > 0, total.at_most > 0), (near, near), "{name}: {total:?}");
        // Candidates are claimed within a fixed amount of work before.
        assert!(work <= steps_max + 2 * 3_200_000, "{name}: {work} numbers read");
    });
}

/// The planner walks over the trees that may supply a server.
#[test]
fn trees_without_a_combination_are_left_out() {
    each(&SIZES_OF_TREES, |name, cloud, request, near, steps_max| {
        if !request.nested {
            // The planner makes no such requests.
            return;
        }
        let mut walk = trees(cloud.world(), request).unwrap();
        let mut found = 0;
        loop {
            match walk.next_tree() {
                Next::Found(_) => found += 1,
                Next::Paused => {}
                Next::Exhausted => break,
            }
        }
        assert_eq!(found > 0, near, "{name}");
        assert!(walk.steps() <= 2 * steps_max, "{name}: {} steps", walk.steps());
    });
}
