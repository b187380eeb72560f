//! From a draft to a plan with places: solving, booking, and once more from the start when others were
//! faster, as long as there is time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use uuid::Uuid;

use super::document::{self, Document};
use super::draft::{Current, Draft};
use super::ledger;
use super::problem::Problem;
use super::template::{self, Template};
use super::wishes::Wish;
use crate::http::app::App;
use crate::model::Refusal;
use crate::planner::flavor::Flavor;
use crate::planner::stack::{Server, Stack, Surroundings};
use crate::planner::topology::Topology;
use crate::planner::{Answer, Failure, places};
use crate::store::planner::booking::Booking;
use crate::store::planner::plans::{PlanRow, Standing, Wanted};
use crate::store::{self, Store};
use crate::world::World;

/// How much longer than the search for places it may take to say why there are none.
const GRACE: Duration = Duration::from_secs(1);

/// What came of it.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) draft: Draft,
    /// The host of each server; `None` for one that is nowhere.
    pub(super) hosts: Vec<Option<String>>,
    /// How good it is; `None` if nobody had to be placed.
    pub(super) answer: Option<Answer>,
}

/// How a plan is to be settled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// How long the search for places may take.
    pub(super) budget: Duration,
    /// Whether nothing is written.
    pub(super) dry_run: bool,
}

/// A plan that does not exist yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposal<'p> {
    pub(super) plan: &'p PlanRow,
    pub(super) document: &'p Document,
    /// What the document says.
    pub(super) template: &'p Template,
}

/// Makes a plan that does not exist yet; `None` if somebody else has made it meanwhile.
pub(super) async fn create(
    app: &App,
    proposal: Proposal<'_>,
    terms: Terms,
) -> Result<Option<Settled>, Problem> {
    let deadline = Instant::now() + terms.budget;
    let Proposal { plan, document, template } = proposal;
    loop {
        // First, so that whoever changes a group from now on is noticed.
        let stored = app.store.groups().await?;
        let draft = Draft::new(plan.clone(), document.clone(), template, &stored)?;
        match attempt(app, draft, deadline, terms).await? {
            Attempt::Done(settled) => return Ok(Some(*settled)),
            Attempt::Exists => return Ok(None),
            Attempt::Overtaken(why) if Instant::now() >= deadline => return Err(overtaken(&why)),
            Attempt::Overtaken(_) => {}
        }
    }
}

/// What becomes of a plan that exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'c> {
    /// Of its servers.
    pub(super) wish: &'c Wish,
    /// Of its name, if it gets another one.
    pub(super) name: Option<&'c str>,
}

/// Changes a plan that exists, by its id or that of its stack.
pub(super) async fn change(
    app: &App,
    key: &str,
    project: Option<&str>,
    wish: &Wish,
    terms: Terms,
) -> Result<Settled, Problem> {
    rename(app, key, project, Change { wish, name: None }, terms).await
}

/// The same, with another name.
pub(super) async fn rename(
    app: &App,
    key: &str,
    project: Option<&str>,
    change: Change<'_>,
    terms: Terms,
) -> Result<Settled, Problem> {
    let Change { wish, name } = change;
    let deadline = Instant::now() + terms.budget;
    loop {
        let current = current(app, key, project).await?;
        let document = wish.document(&current);
        let resources = document.as_ref().map(|document| &document.resources);
        let flavors = flavors(&app.store, resources).await?;
        let mut draft = wish.draft(&current, &flavors)?;
        if let Some(name) = name.filter(|name| *name != draft.plan.name) {
            name.clone_into(&mut draft.plan.name);
            draft.renamed = true;
        }
        match attempt(app, draft, deadline, terms).await? {
            Attempt::Done(settled) => return Ok(*settled),
            Attempt::Overtaken(why) if Instant::now() >= deadline => return Err(overtaken(&why)),
            Attempt::Overtaken(_) | Attempt::Exists => {}
        }
    }
}

/// A host for one server of no plan.
pub(super) async fn recommend(
    app: &App,
    server: Server,
    terms: Terms,
) -> Result<Option<String>, Problem> {
    let stack = Stack { servers: vec![server], ..Stack::default() };
    let plan = new_plan("", "", ("", ""));
    let draft = Draft::new(plan, Document::default(), &Template::default(), &[])?;
    let draft = Draft { stack, ..draft };
    let world = app.store.world().await?;
    let standing = app.store.standing(None, &[]).await?;
    let around = surroundings(&standing, app.options.planner.host_names);
    let deadline = Instant::now() + terms.budget;
    let (_, answer) = solve(app, &world, draft, around, deadline).await?;
    let placed = answer.and_then(|answer| answer.places.into_iter().next().flatten());
    Ok(placed.map(|placed| placed.host))
}

/// A plan as it stands, if the project may see it.
pub(super) async fn current(
    app: &App,
    key: &str,
    project: Option<&str>,
) -> Result<Current, Problem> {
    let missing = || Problem::not_found("Plan not found");
    let plan = app.store.plan(key).await?.ok_or_else(missing)?;
    if project.is_some_and(|project| project != plan.project) {
        return Err(missing());
    }
    let wanted = Wanted { plan: Some(plan.id), ..Wanted::default() };
    let placements = app.store.placements(&wanted).await?;
    let (leaving, placements) = placements.into_iter().partition(|it| it.leaving);
    let stored = app.store.groups().await?;
    let document = Document::read(&plan.document)?;
    let template = document.template()?;
    // Last, so that it knows every provider that something is held on.
    let world = app.store.world().await?;
    let topology = Topology::of(&world, app.options.planner.host_names);
    Ok(Current { plan, document, template, placements, leaving, stored, world, topology })
}

/// The flavors that resources name.
pub(super) async fn flavors(
    store: &Store,
    resources: Option<&super::schema::Object>,
) -> Result<Vec<Flavor>, Problem> {
    let Some(resources) = resources else { return Ok(Vec::new()) };
    let names = document::flavors(&template::read(resources)?);
    Ok(store.flavors_named(&names).await?)
}

enum Attempt {
    Done(Box<Settled>),
    /// Others were faster: what the database said.
    Overtaken(String),
    /// There is a plan for the stack.
    Exists,
}

async fn attempt(
    app: &App,
    draft: Draft,
    deadline: Instant,
    terms: Terms,
) -> Result<Attempt, Problem> {
    let plan = draft.exists.then_some(draft.plan.id);
    let groups = ledger::groups(&draft);
    let standing = app.store.standing(plan, &groups).await?;
    let mut around = surroundings(&standing, app.options.planner.host_names);
    around.known = groups.iter().copied().collect();
    let world = app.store.world().await?;
    let (draft, answer) = match solve(app, &world, draft, around, deadline).await {
        // Who was a stranger in the world may have been let in, or have left, since that was read.
        Err(why)
            if why.status == StatusCode::CONFLICT
                && app.store.standing(plan, &groups).await? != standing =>
        {
            return Ok(Attempt::Overtaken(why.explanation));
        }
        solved => solved?,
    };
    let hosts = ledger::hosts(&draft, answer.as_ref(), &world, app.options.planner.host_names);
    if !terms.dry_run {
        let booking = ledger::booking(&draft, answer.as_ref(), &world);
        let booked = commit(app, booking).await;
        if let Err(store::Error::Refused(Refusal::PlanExists(_))) = booked {
            return Ok(Attempt::Exists);
        }
        if let Some(why) = overtaking(booked)? {
            return Ok(Attempt::Overtaken(why));
        }
    }
    Ok(Attempt::Done(Box::new(Settled { draft, hosts, answer })))
}

async fn commit(app: &App, booking: Option<Booking>) -> store::Result<()> {
    match booking {
        Some(booking) => app.store.commit(booking).await,
        None => Ok(()),
    }
}

/// What the refusal of a booking says, if the places may be taken elsewhere.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other refusal is final")]
fn overtaking(booked: store::Result<()>) -> Result<Option<String>, Problem> {
    match booked {
        Ok(()) => Ok(None),
        Err(store::Error::Refused(why)) => match why {
            Refusal::CapacityExceeded { .. }
            | Refusal::ConstraintsViolated { .. }
            | Refusal::InvalidInventory { .. }
            | Refusal::AllocationProviderNotFound(_)
            | Refusal::ClassNotFound(_)
            | Refusal::Exclusive { .. }
            | Refusal::UnitTaken(_)
            | Refusal::PlanChanged => Ok(Some(why.to_string())),
            why => Err(Problem::conflict(format!("Valet error: {why}"))),
        },
        Err(error) => Err(error.into()),
    }
}

fn overtaken(why: &str) -> Problem {
    Problem::conflict(format!(
        "Ostro error: other requests were faster every time the plan was booked ({why}); try again"
    ))
}

/// Finds places, away from the threads that serve requests.
async fn solve(
    app: &App,
    world: &Arc<World>,
    draft: Draft,
    around: Surroundings,
    deadline: Instant,
) -> Result<(Draft, Option<Answer>), Problem> {
    if !draft.is_open() {
        return Ok((draft, None));
    }
    let world = Arc::clone(world);
    let turn = Arc::clone(&app.search_turns).acquire_owned().await;
    let work = tokio::task::spawn_blocking(move || {
        let solved = try_places(&world, draft, &around, deadline);
        drop(turn);
        solved
    });
    let solved = work.await.map_err(|panic| Problem::internal(format!("the planner: {panic}")))?;
    let (draft, outcome) = solved;
    outcome.map(|answer| (draft, Some(answer))).map_err(failed)
}

fn try_places(
    world: &Arc<World>,
    mut draft: Draft,
    around: &Surroundings,
    deadline: Instant,
) -> (Draft, Result<Answer, Failure>) {
    let mut is_up = || Instant::now() >= deadline;
    let mut is_over = || Instant::now() >= deadline + GRACE;
    let outcome = places(world, &draft.stack, around, &mut is_up, &mut is_over);
    if !draft.may_give_way || !matches!(outcome, Err(Failure::NoPlaces(_))) {
        return (draft, outcome);
    }
    for (server, slot) in draft.stack.servers.iter_mut().zip(&draft.slots) {
        server.fixed = server.fixed && slot.is_reserved();
    }
    let second = places(world, &draft.stack, around, &mut is_up, &mut is_over);
    (draft, second.or(outcome))
}

/// What is said of a plan for which there are no places.
fn failed(failure: Failure) -> Problem {
    match failure {
        Failure::NoPlaces(why) => {
            let detail = why.demands.iter().map(super::views::demand).collect();
            Problem::conflict(format!("Ostro error: {}", why.sentence)).detail(detail)
        }
        Failure::OutOfTime => Problem::conflict(
            "Ostro error: no places were found within the time there was; allow more with `timeout`",
        ),
        Failure::Senseless(why) | Failure::Unknown(why) => {
            Problem::bad_request(format!("Valet error: {why}"))
        }
    }
}

fn surroundings(standing: &Standing, racks_by_names: bool) -> Surroundings {
    let mut around =
        Surroundings { kept: standing.kept.clone(), racks_by_names, ..Surroundings::default() };
    for (group, providers) in &standing.occupied {
        around.occupied.entry(*group).or_default().push(providers.clone());
    }
    around
}

/// A plan that is new.
pub(super) fn new_plan(name: &str, stack_id: &str, (project, user): (&str, &str)) -> PlanRow {
    PlanRow {
        id: Uuid::new_v4(),
        name: name.to_owned(),
        stack_id: stack_id.to_owned(),
        stack_key: crate::planner::ids::canonical(stack_id),
        project: project.to_owned(),
        user: user.to_owned(),
        document: String::new(),
        generation: 1,
    }
}
