//! The page, as its template shows it.

use std::collections::BTreeMap;

use askama::Template;

use super::parameters::{Parameters, name_of};
use super::survey::{
    Area, Grouping, Host, ListOrder, Survey, Wanted, areas, condition, mean_fullness, merge, sums,
    survey, usual_grouping,
};
use crate::http::console::amounts::{Amounts, Fullness, Grouped};
use crate::http::console::context::Problem;
use crate::http::console::page::{FirstItems, Pager, Shell};
use crate::model::ClassId;
use crate::planner::topology::Topology;
use crate::world::World;

/// Number of hosts in a list.
const LISTED: usize = 50;
/// Number of hosts on a page of areas; an area is not split unless it has more.
const DRAWN: usize = 600;
/// Maximum numbers of areas on a page, and at a glance.
const AREAS_MAX: usize = 60;
const TILES_MAX: usize = 100;
/// Maximum number of classes in the table and in the form.
const ROWS_MAX: usize = 100;
/// Maximum number of classes in the heading of an area, or in the row of a host.
const CLASSES_MAX: usize = 4;

/// The page.
#[derive(Template)]
#[template(path = "console/cloud.html")]
pub(super) struct CloudPage {
    shell: Shell,
    /// The values of the form.
    find: String,
    class: String,
    area: Option<String>,
    classes_known: Vec<Choice>,
    groupings: Vec<Choice>,
    orders: Vec<Choice>,
    is_list: bool,
    /// The links to the other view, and to the page without an area.
    other_view: String,
    without_area: String,
    /// The meaning of the text to find, if there is one.
    found: Option<&'static str>,
    /// The number of hosts whose free capacity nothing can use, and the link to their list.
    stranded: Option<(Grouped, String)>,
    hosts: Grouped,
    pools: Grouped,
    providers: Grouped,
    classes: FirstItems<ClassRow>,
    /// All areas at a glance.
    overview: FirstItems<AreaTile>,
    areas: Vec<AreaBlock>,
    list: Vec<HostRow>,
    pager: Pager,
}

/// An option of a form.
pub(super) struct Choice {
    value: String,
    text: String,
    is_chosen: bool,
}

/// A class with its amounts.
pub(super) struct ClassRow {
    name: String,
    amounts: Amounts,
}

/// An area, with the mean fullness of its hosts.
pub(super) struct AreaTile {
    name: String,
    link: String,
    fullness: Fullness,
}

/// An area with its hosts.
pub(super) struct AreaBlock {
    title: String,
    link: String,
    hosts: Grouped,
    pools: Grouped,
    classes: Vec<ClassRow>,
    cells: Vec<Cell>,
    /// Number of hosts that are not drawn.
    more: Option<Grouped>,
}

/// A host in its area.
pub(super) struct Cell {
    name: String,
    uuid: String,
    fullness: Fullness,
}

/// A host in a list.
pub(super) struct HostRow {
    cell: Cell,
    /// The class of the fullness.
    fullest: String,
    classes: Vec<ClassRow>,
    more_classes: usize,
}

/// Makes the page of a world.
///
/// # Errors
/// The class is unknown.
pub(super) fn page(
    shell: Shell,
    parameters: &Parameters,
    world: &World,
    topology: &Topology,
) -> Result<CloudPage, Problem> {
    let class =
        match parameters.class.as_str() {
            "" => None,
            name => Some(world.class_id(name).ok_or_else(|| {
                Problem::bad_request(format!("There is no resource class {name}."))
            })?),
        };
    let wanted = Wanted::of(&parameters.find, world);
    let area = parameters.by.zip(parameters.area.as_deref());
    let mut survey = survey(world, topology, class, condition(&wanted, area, topology));
    let by = parameters.by.unwrap_or_else(|| usual_grouping(world, &survey.hosts, topology));
    let view = View { world, parameters, class, base: &shell.base };
    let mut list = Vec::new();
    let (mut overview, mut blocks) = (FirstItems::of(0, 0, std::iter::empty()), Vec::new());
    let pager;
    if parameters.is_list {
        (pager, list) = view.list(&mut survey);
    } else {
        let mut areas = areas(world, &survey.hosts, by, topology);
        parameters.order.sort_areas(&mut areas);
        overview = view.overview(by, &areas);
        (pager, blocks) = view.areas(by, &areas);
    }
    let other_view = Parameters { is_list: !parameters.is_list, page: 1, ..parameters.clone() };
    let without_area = Parameters { area: None, page: 1, is_list: false, ..parameters.clone() };
    let by_stranded =
        Parameters { order: ListOrder::Stranded, is_list: true, page: 1, ..parameters.clone() };
    let stranded = Some(survey.stranded).filter(|count| *count > 0).map(Grouped::count);
    let stranded = stranded.map(|count| (count, view.link(&by_stranded)));
    Ok(CloudPage {
        stranded,
        find: parameters.find.clone(),
        class: parameters.class.clone(),
        area: parameters.area.clone(),
        classes_known: view.class_choices(&survey.classes),
        groupings: choices(Some(by), &Grouping::ALL),
        orders: choices(Some(parameters.order), &ListOrder::ALL),
        is_list: parameters.is_list,
        other_view: view.link(&other_view),
        without_area: view.link(&without_area),
        found: meaning(&wanted),
        hosts: Grouped::count(survey.hosts.len() - survey.pools),
        pools: Grouped::count(survey.pools),
        providers: Grouped::count(survey.providers),
        classes: view.all_rows(&survey.classes),
        overview,
        areas: blocks,
        list,
        pager,
        shell,
    })
}

/// Returns how the text to find was understood.
fn meaning(wanted: &Wanted) -> Option<&'static str> {
    Some(match wanted {
        Wanted::Anything | Wanted::Consumer(_) => return None,
        Wanted::Name(_) => "with a provider whose name contains",
        Wanted::Provider(_) => "with the provider",
        Wanted::Aggregate(_) => "with a provider in the aggregate",
        Wanted::Trait(_) => "with a provider that has the trait",
        Wanted::Class(_) => "with an inventory of",
    })
}

fn choices<T: Copy + PartialEq>(
    chosen: Option<T>,
    all: &[(T, &'static str, &'static str)],
) -> Vec<Choice> {
    let choice = |(value, name, text): &(T, &'static str, &'static str)| Choice {
        value: (*name).to_owned(),
        text: (*text).to_owned(),
        is_chosen: Some(*value) == chosen,
    };
    all.iter().map(choice).collect()
}

/// A view of a world for some parameters.
struct View<'v> {
    world: &'v World,
    parameters: &'v Parameters,
    class: Option<ClassId>,
    base: &'v str,
}

impl View<'_> {
    fn link(&self, parameters: &Parameters) -> String {
        format!("{}?{}", self.base, parameters.query())
    }

    fn pager(&self, pages: usize) -> Pager {
        Pager::of(self.parameters.page, pages.max(1), |page| {
            self.link(&Parameters { page, ..self.parameters.clone() })
        })
    }

    fn class_choices(&self, classes: &BTreeMap<ClassId, Amounts>) -> Vec<Choice> {
        let chosen = self.class;
        let first = || classes.keys().copied().take(ROWS_MAX);
        // The chosen class stays, even if no host that matches has it.
        let known = first().chain(chosen.filter(|id| !first().any(|known| known == *id)));
        let choice = |id: ClassId| {
            let name = self.world.class_name(id).unwrap_or_default().to_owned();
            Choice { value: name.clone(), text: name, is_chosen: chosen == Some(id) }
        };
        known.map(choice).collect()
    }

    /// Returns the rows of all classes, if they are not too many.
    fn all_rows(&self, classes: &BTreeMap<ClassId, Amounts>) -> FirstItems<ClassRow> {
        let rows = classes.iter().map(|(id, amounts)| self.row(*id, amounts));
        FirstItems::of(ROWS_MAX, classes.len(), rows)
    }

    fn row(&self, id: ClassId, amounts: &Amounts) -> ClassRow {
        ClassRow { name: self.world.name_of_class(id).to_owned(), amounts: *amounts }
    }

    /// Returns the row of the chosen class, or those of the first classes.
    fn rows(&self, classes: impl IntoIterator<Item = (ClassId, Amounts)>) -> Vec<ClassRow> {
        let shown = classes.into_iter().filter(|(id, _)| self.class.is_none_or(|it| it == *id));
        shown.take(CLASSES_MAX).map(|(id, amounts)| self.row(id, &amounts)).collect()
    }

    fn cell(&self, host: &Host) -> Option<Cell> {
        let root = self.world.at(host.slot)?;
        Some(Cell {
            name: root.name().to_owned(),
            uuid: root.uuid().to_string(),
            fullness: Fullness(host.fullness),
        })
    }

    /// Returns one page of the hosts in the order of the parameters.
    fn list(&self, survey: &mut Survey) -> (Pager, Vec<HostRow>) {
        self.parameters.order.sort(self.world, &mut survey.hosts);
        let pages = survey.hosts.len().div_ceil(LISTED);
        let from = self.parameters.page.saturating_sub(1).saturating_mul(LISTED);
        let row = |host: &Host| {
            let sums = sums(&self.world.at(host.slot)?);
            let classes = self.rows(sums.iter().copied());
            let more_classes = sums.len() - classes.len();
            let fullest =
                host.class.map_or_else(String::new, |id| self.world.name_of_class(id).to_owned());
            Some(HostRow { cell: self.cell(host)?, fullest, classes, more_classes })
        };
        let hosts = survey.hosts.iter().skip(from).take(LISTED);
        (self.pager(pages), hosts.filter_map(row).collect())
    }

    /// Returns the first areas at a glance.
    fn overview(&self, by: Grouping, areas: &[(Area, Vec<Host>)]) -> FirstItems<AreaTile> {
        let tile = |(area, hosts): &(Area, Vec<Host>)| AreaTile {
            name: title(by, area),
            link: self.area_link(by, area),
            fullness: Fullness(mean_fullness(hosts)),
        };
        FirstItems::of(TILES_MAX, areas.len(), areas.iter().map(tile))
    }

    fn area_link(&self, by: Grouping, area: &Area) -> String {
        self.link(&Parameters {
            by: Some(by),
            area: Some(area.name()),
            is_list: true,
            page: 1,
            ..self.parameters.clone()
        })
    }

    /// Returns one page of the areas, with their hosts.
    fn areas(&self, by: Grouping, areas: &[(Area, Vec<Host>)]) -> (Pager, Vec<AreaBlock>) {
        let pages = pages(areas.iter().map(|(_, hosts)| hosts.len()));
        let of_page = pages.get(self.parameters.page.saturating_sub(1)).cloned().unwrap_or(0..0);
        let blocks = areas.get(of_page).unwrap_or_default();
        let blocks = blocks.iter().map(|(area, hosts)| self.block(by, area, hosts));
        (self.pager(pages.len()), blocks.collect())
    }

    fn block(&self, by: Grouping, area: &Area, hosts: &[Host]) -> AreaBlock {
        let mut classes = BTreeMap::new();
        for root in hosts.iter().filter_map(|host| self.world.at(host.slot)) {
            merge(&mut classes, &sums(&root));
        }
        let mut drawn = hosts.to_vec();
        self.parameters.order.sort(self.world, &mut drawn);
        let pools = hosts.iter().filter(|host| host.is_pool).count();
        AreaBlock {
            title: title(by, area),
            link: self.area_link(by, area),
            hosts: Grouped::count(hosts.len() - pools),
            pools: Grouped::count(pools),
            classes: self.rows(classes),
            cells: drawn.iter().take(DRAWN).filter_map(|host| self.cell(host)).collect(),
            more: hosts.len().checked_sub(DRAWN).filter(|it| *it > 0).map(Grouped::count),
        }
    }
}

fn title(by: Grouping, area: &Area) -> String {
    let kind = name_of(by, &Grouping::ALL);
    match area {
        Area::Elsewhere => format!("in no known {kind}"),
        Area::Named(_) | Area::Aggregate(_) => format!("{kind} {}", area.name()),
    }
}

/// Divides areas into pages, by their numbers of hosts.
fn pages(areas: impl Iterator<Item = usize>) -> Vec<std::ops::Range<usize>> {
    let mut pages: Vec<std::ops::Range<usize>> = Vec::new();
    let mut drawn = 0;
    for (at, hosts) in areas.enumerate() {
        let hosts = hosts.min(DRAWN);
        match pages.last_mut() {
            Some(page) if drawn + hosts <= DRAWN && page.len() < AREAS_MAX => {
                page.end = at + 1;
                drawn += hosts;
            }
            _ => {
                pages.push(at..at + 1);
                drawn = hosts;
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::pages;

    #[test]
    fn a_page_has_as_many_areas_as_their_hosts_leave_room_for() {
        assert!(pages(std::iter::empty()).is_empty());
        assert_eq!(pages([40; 16].into_iter()), [0..15, 15..16]);
        assert_eq!(pages([1, 100_000, 1].into_iter()), [0..1, 1..2, 2..3]);
        assert_eq!(pages([1; 61].into_iter()), [0..60, 60..61]);
    }
}
