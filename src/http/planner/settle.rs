//! From a draft to a plan with places: solving, booking, and once more from the start when others were
//! faster, as long as there is time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use uuid::Uuid;

use super::aside;
use super::document::{self, Document};
use super::draft::{Current, Draft};
use super::ledger::{self, Unbooked};
use super::problem::Problem;
use super::template::Template;
use super::wishes::Wish;
use crate::http::app::App;
use crate::http::turns::{Asker, Turn};
use crate::http::watch::Watch;
use crate::model::{Bug, Refusal};
use crate::planner::stack::{Server, Stack, Surroundings};
use crate::planner::topology::Topology;
use crate::planner::{Answer, Failure, places};
use crate::store;
use crate::store::planner::booking::Booking;
use crate::store::planner::plans::{Meant, PlanRow, Scope, Standing, Wanted};
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
    /// Whose turns it takes.
    pub(super) asker: Asker,
}

/// The time of a plan. It begins with the first turn, and does not run while the plan waits for
/// another one.
#[derive(Debug)]
struct Time {
    terms: Terms,
    watch: Watch,
    /// When it ends; `None` before the first turn.
    deadline: Option<Instant>,
    /// How much longer the plan may wait for turns.
    wait: Duration,
    /// What was said the last time that others were faster.
    overtaken: Option<String>,
}

impl Time {
    fn new(app: &App, terms: Terms) -> Self {
        let wait = app.options.planner.turn_wait;
        Self { terms, watch: app.watch.clone(), deadline: None, wait, overtaken: None }
    }

    /// A turn at finding places, and when the search for them has to end.
    async fn turn(&mut self, app: &App) -> Result<(Turn, Instant), Problem> {
        let began = Instant::now();
        let turn = tokio::time::timeout(self.wait, app.plan_turns.turn(self.terms.asker)).await;
        let turn = match turn {
            Ok(Ok(turn)) => turn,
            Ok(Err(crowded)) => return Err(no_turn(&crowded.to_string())),
            Err(_) => return Err(no_turn("too many plans are made at present")),
        };
        let waited = began.elapsed();
        self.wait = self.wait.saturating_sub(waited);
        let deadline = match self.deadline {
            None => self.watch.now() + self.terms.budget,
            Some(deadline) => deadline + waited,
        };
        self.deadline = Some(deadline);
        Ok((turn, deadline))
    }

    /// Whether the time is up. A plan that needs no turn has its time from the first look on.
    fn is_up(&mut self) -> bool {
        let now = self.watch.now();
        now >= *self.deadline.get_or_insert(now + self.terms.budget)
    }
}

fn no_turn(why: &str) -> Problem {
    Problem::unavailable(why)
        .explained(format!("Ostro error: the plan did not come to its turn: {why}; try again"))
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
    let mut time = Time::new(app, terms);
    let Proposal { plan, document, template } = proposal;
    loop {
        // First, so that whoever changes a group from now on is noticed.
        let stored = app.store.groups().await?;
        let draft = Draft::new(plan.clone(), document.clone(), template, &stored)?;
        match attempt(app, draft, &mut time).await? {
            Attempt::Done(settled) => return Ok(Some(*settled)),
            Attempt::Exists => return Ok(None),
            Attempt::Overtaken(why) if time.is_up() => return Err(overtaken(&why)),
            Attempt::Overtaken(why) => time.overtaken = Some(why),
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
    scope: Scope<'_>,
    wish: &Wish,
    terms: Terms,
) -> Result<Settled, Problem> {
    rename(app, key, scope, Change { wish, name: None }, terms).await
}

/// The same, with another name.
pub(super) async fn rename(
    app: &App,
    key: &str,
    scope: Scope<'_>,
    change: Change<'_>,
    terms: Terms,
) -> Result<Settled, Problem> {
    let Change { wish, name } = change;
    let mut time = Time::new(app, terms);
    let wish = Arc::new(wish.clone());
    loop {
        let current = current(app, key, scope, terms.asker).await?;
        let mut draft = drafted(app, current, &wish, terms.asker).await?;
        if let Some(name) = name.filter(|name| *name != draft.plan.name) {
            name.clone_into(&mut draft.plan.name);
            draft.renamed = true;
        }
        match attempt(app, draft, &mut time).await? {
            Attempt::Done(settled) => return Ok(*settled),
            Attempt::Overtaken(why) if time.is_up() => return Err(overtaken(&why)),
            Attempt::Overtaken(why) => time.overtaken = Some(why),
            Attempt::Exists => {}
        }
    }
}

/// The plan as a wish wants it to be.
async fn drafted(
    app: &App,
    current: Current,
    wish: &Arc<Wish>,
    asker: Asker,
) -> Result<Draft, Problem> {
    let same = Arc::clone(wish);
    let read = move || {
        let document = same.document(&current);
        let template = document.as_ref().map(Document::template).transpose()?;
        let names = template.as_ref().map(document::flavors);
        Ok((current, document, names))
    };
    let turn = aside::turn(app, asker).await?;
    let (current, document, names) = aside::work(turn, read).await?;
    let flavors = match names {
        Some(names) => app.store.flavors_named(&names).await?,
        None => Vec::new(),
    };
    let wish = Arc::clone(wish);
    let turn = aside::turn(app, asker).await?;
    aside::work(turn, move || wish.draft(&current, document, &flavors)).await
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
    let turn = Time::new(app, terms).turn(app).await?;
    let world = app.store.world().await?;
    let standing = app.store.standing(&[], &[]).await?;
    let around = surroundings(&standing, app.options.planner.host_names);
    let (_, answer) = solve(app, &world, draft, around, Some(turn)).await?;
    let placed = answer.and_then(|answer| answer.places.into_iter().next().flatten());
    Ok(placed.map(|placed| placed.host))
}

/// The plan that a key means to who sees so much.
pub(super) async fn meant(app: &App, key: &str, scope: Scope<'_>) -> Result<PlanRow, Problem> {
    match app.store.plan(key, scope).await? {
        Meant::Plan(plan) => Ok(*plan),
        Meant::Nothing => Err(Problem::not_found("Plan not found")),
        Meant::Several(plans) => {
            let plans: Vec<String> = plans.iter().map(Uuid::to_string).collect();
            Err(Problem::conflict(format!(
                "Valet error: Several projects have a plan for stack '{key}'; name one by its own \
                 id: {}",
                plans.join(", ")
            )))
        }
    }
}

/// The same as it stands.
pub(super) async fn current(
    app: &App,
    key: &str,
    scope: Scope<'_>,
    asker: Asker,
) -> Result<Current, Problem> {
    let turn = aside::turn(app, asker).await?;
    let plan = meant(app, key, scope).await?;
    let wanted = Wanted { plan: Some(plan.id), ..Wanted::default() };
    let placements = app.store.placements(&wanted).await?;
    let (leaving, placements) = placements.into_iter().partition(|it| it.leaving);
    let stored = app.store.groups().await?;
    // Last, so that it knows every provider that something is held on.
    let world = app.store.world().await?;
    let host_names = app.options.planner.host_names;
    aside::work(turn, move || {
        let document = Document::read(&plan.document)?;
        let template = document.template()?;
        let topology = Topology::of(&world, host_names);
        Ok(Current { plan, document, template, placements, leaving, stored, world, topology })
    })
    .await
}

enum Attempt {
    Done(Box<Settled>),
    /// Others were faster: what the database said.
    Overtaken(String),
    /// There is a plan for the stack.
    Exists,
}

async fn attempt(app: &App, draft: Draft, time: &mut Time) -> Result<Attempt, Problem> {
    // First, so that who waits holds nothing, and finds the world as it is then.
    let turn = if draft.needs_turn() { Some(time.turn(app).await?) } else { None };
    let groups = ledger::groups(&draft);
    let own = ledger::decided(&draft);
    let standing = app.store.standing(&own, &groups).await?;
    let mut around = surroundings(&standing, app.options.planner.host_names);
    around.known = groups.iter().copied().collect();
    let world = app.store.world().await?;
    let (mut draft, mut answer) = match solve(app, &world, draft, around, turn).await {
        // Who was a stranger in the world may have been let in, or have left, since that was read.
        Err(why)
            if why.status == StatusCode::CONFLICT
                && app.store.standing(&own, &groups).await? != standing =>
        {
            return Ok(Attempt::Overtaken(why.explanation));
        }
        // It was others who used the time up.
        Err(why) if why.status == StatusCode::SERVICE_UNAVAILABLE => {
            return Err(time.overtaken.as_deref().map_or(why, overtaken));
        }
        solved => solved?,
    };
    let hosts = ledger::hosts(&draft, answer.as_ref(), &world, app.options.planner.host_names);
    if !time.terms.dry_run {
        let turn = aside::turn(app, time.terms.asker).await?;
        let booking;
        (draft, answer, booking) = aside::work(turn, move || {
            let booking = ledger::booking(&draft, answer.as_ref(), &world);
            Ok((draft, answer, booking))
        })
        .await?;
        let booking = match booking {
            Ok(booking) => booking,
            Err(Unbooked::Changed(why)) => return Ok(Attempt::Overtaken(why)),
            Err(Unbooked::Wrong(bug)) => return Err(bug.into()),
        };
        let caps = Some(app.options.planner.caps);
        let booked = commit(app, booking.map(|booking| Booking { caps, ..booking })).await;
        if let Err(store::Error::Refused(Refusal::PlanExists(_))) = booked {
            return Ok(Attempt::Exists);
        }
        if let Some(why) = overtaking(booked, answer.is_some())? {
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

/// What the refusal of a booking says, if another attempt may do better. Where no place was `chosen`,
/// there are no others to choose, so what does not fit there is final.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other refusal is final")]
fn overtaking(booked: store::Result<()>, chosen: bool) -> Result<Option<String>, Problem> {
    match booked {
        Ok(()) => Ok(None),
        Err(store::Error::Refused(why)) => match why {
            Refusal::CapacityExceeded { .. }
            | Refusal::ConstraintsViolated { .. }
            | Refusal::InvalidInventory { .. }
                if chosen =>
            {
                Ok(Some(why.to_string()))
            }
            Refusal::AllocationProviderNotFound(_)
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

/// Finds places in a turn, away from the threads that serve requests. Without a turn nobody is to be
/// placed.
async fn solve(
    app: &App,
    world: &Arc<World>,
    draft: Draft,
    around: Surroundings,
    turn: Option<(Turn, Instant)>,
) -> Result<(Draft, Option<Answer>), Problem> {
    let Some((turn, deadline)) = turn else { return Ok((draft, None)) };
    let world = Arc::clone(world);
    let watch = app.watch.clone();
    let (_waits, gone) = waits();
    let work = tokio::task::spawn_blocking(move || {
        let is_up = |grace| gone.load(Ordering::Relaxed) || watch.now() >= deadline + grace;
        let solved = try_places(&world, draft, &around, &is_up);
        drop(turn);
        solved
    });
    let solved = work.await.map_err(|panic| Problem::internal(format!("the planner: {panic}")))?;
    let (draft, outcome) = solved;
    outcome.map(|answer| (draft, answer)).map_err(failed)
}

/// Somebody waits for an answer, until this is dropped.
struct Waits(Arc<AtomicBool>);

/// The sign that somebody waits, and where it is seen that nobody does any more.
fn waits() -> (Waits, Arc<AtomicBool>) {
    let gone = Arc::default();
    (Waits(Arc::clone(&gone)), gone)
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Finds places; `is_up` says whether the time is up that is given and some grace.
fn try_places(
    world: &Arc<World>,
    mut draft: Draft,
    around: &Surroundings,
    is_up: &dyn Fn(Duration) -> bool,
) -> (Draft, Result<Option<Answer>, Failure>) {
    let topology = Topology::of(world, around.racks_by_names);
    if let Err(why) = draft.complete(world, &topology) {
        let why = draft.stack.words(why);
        return (draft, Err(Failure::Senseless(why)));
    }
    if !draft.is_open() {
        return (draft, Ok(None));
    }
    let mut is_time_up = || is_up(Duration::ZERO);
    let mut is_time_over = || is_up(GRACE);
    let outcome = places(world, &draft.stack, around, &mut is_time_up, &mut is_time_over);
    if !draft.may_give_way || !matches!(outcome, Err(Failure::NoPlaces(_))) {
        return (draft, outcome.map(Some));
    }
    for (server, slot) in draft.stack.servers.iter_mut().zip(&draft.slots) {
        server.fixed = server.fixed && slot.is_reserved();
    }
    let second = places(world, &draft.stack, around, &mut is_time_up, &mut is_time_over);
    (draft, second.or(outcome).map(Some))
}

/// What is said of a plan for which there are no places.
fn failed(failure: Failure) -> Problem {
    match failure {
        Failure::NoPlaces(why) => {
            let detail = why.demands.iter().map(super::views::demand).collect();
            Problem::conflict(format!("Ostro error: {}", why.sentence)).detail(detail)
        }
        Failure::OutOfTime => Problem::unavailable("the time of a plan was up").explained(
            "Ostro error: no places were found within the time there was, and it is not known \
             whether there are any; allow more with `timeout`",
        ),
        Failure::Broken(why) => Bug::new(format!("the planner: {why}")).into(),
        Failure::Senseless(why) | Failure::Unknown(why) | Failure::TooLarge(why) => {
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
