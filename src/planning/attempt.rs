//! Creates and changes plans. Each attempt reads the plan and the state of the cloud once, lets the solver choose
//! hosts, and books them. If other requests have changed the state in between, another attempt follows.

use std::collections::HashMap;
use std::sync::Arc;

use metrics::counter;

use super::budget::{Budget, SolverTurn};
use super::context::{ATTEMPTS_MAX, PlanRef, Planning, Terms};
use super::failure::{Failure, Work};
use super::offload::run;
use crate::fairness::turns::Requester;
use crate::model::{PlacementPolicy, Refusal};
use crate::observe::metrics::variant;
use crate::observe::spans::{self, span};
use crate::planner::PlacedStack;
use crate::planner::booking::{self, BookingError, BookingPlan};
use crate::planner::change::{PlanChange, attachment_level, has_bandwidth, has_storage};
use crate::planner::difference::StackRequest;
use crate::planner::document::{self, Document};
use crate::planner::draft::{CurrentPlan, Draft};
use crate::planner::draw::{self, Draw};
use crate::planner::ids::canonical;
use crate::planner::json::Object;
use crate::planner::plan::Plan;
use crate::planner::policy::StoredLevel;
use crate::planner::stack::Surroundings;
use crate::planner::template::Template;
use crate::store;
use crate::store::planner::booking::Booking;
use crate::store::planner::plans::Scope;
use crate::world::World;

/// A plan with hosts.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) draft: Draft,
    /// The name of the host of each server; `None` for a server without one.
    pub(crate) hosts: Vec<Option<String>>,
    /// The capacity that each server draws on.
    pub(crate) draws: Vec<Draw>,
    /// The outcome of the solver; `None` if no server needed a host.
    pub(crate) solution: Option<PlacedStack>,
}

/// A request for a new plan.
#[derive(Clone, Debug)]
pub(crate) struct NewPlan {
    pub(crate) name: String,
    pub(crate) stack_id: String,
    pub(crate) project: String,
    pub(crate) user: String,
    /// Servers, groups and other resources by their orchestration ids.
    pub(crate) resources: Object,
    /// Whether the caller may change the plans of all projects.
    pub(crate) by_operator: bool,
    /// Hosts allowed for all servers; `None`: any.
    pub(crate) locations: Option<Vec<String>>,
    /// The order of valid placements, the best first.
    pub(crate) policy: PlacementPolicy,
}

/// The outcome of an attempt.
enum Attempt {
    Done(Box<Planned>),
    /// Another request has changed the state; the message of the database.
    Overtaken(String),
    /// Another request has created a plan for the stack.
    Exists,
}

impl Planning {
    /// Creates a plan. Returns the stack's plan instead if it has one that equals the request.
    ///
    /// # Errors
    /// Every kind of failure.
    pub(crate) async fn create(&self, new: NewPlan, terms: Terms) -> Result<Planned, Failure> {
        let NewPlan { name, stack_id, project, user, resources, by_operator, locations, policy } =
            new;
        let world = self.store.world().await?;
        let mut document = Document::new(resources, locations.clone(), policy);
        let key = canonical(&stack_id);
        let template = document.whole_template()?.of_request()?.of_stack(&key);
        let request = Arc::new(StackRequest { template: template.clone(), locations, policy });
        document.volumes = has_storage(&world);
        document.attachment_level = attachment_level(&world).map(StoredLevel);
        document.pipes = template.has_pipes() && has_bandwidth(&world);
        drop(world);
        let template = &document.limited(template);
        for _ in 0..ATTEMPTS_MAX {
            if let Some(plan) = self.store.plan_of_stack(&key, &project).await? {
                let scope = Scope { project: &project, all: false };
                let plan = PlanRef { key: &plan.id.to_string(), scope };
                let repeat = PlanChange::Repeat(Arc::clone(&request));
                match self.change(plan, repeat, None, terms).await {
                    // It was deleted in the meantime.
                    Err(Failure::PlanNotFound) => continue,
                    repeated => return repeated,
                }
            }
            self.caps.foresee(&self.store, &project, template.servers.len()).await?;
            let flavors = self.store.flavors_named(&document::flavors(template)).await?;
            document.measure(template, &Template::default(), &flavors)?;
            let any_project = by_operator && template.is_instance(&key);
            let plan = Plan { any_project, ..Plan::new(&name, &stack_id, &project, &user) };
            if let Some(planned) = self.create_new(&plan, &document, template, terms).await? {
                return Ok(planned);
            }
        }
        Err(Failure::Unsettled("created and deleted"))
    }

    /// Creates a plan that is not stored yet; returns `None` if another request has created one for the stack.
    async fn create_new(
        &self,
        plan: &Plan,
        document: &Document,
        template: &Template,
        terms: Terms,
    ) -> Result<Option<Planned>, Failure> {
        let mut budget = Budget::new(self, terms);
        let mut overtaken = None;
        loop {
            // Read first, so that the booking notices every change of a group from now on.
            let groups = self.store.groups().await?;
            let draft = Draft::new(plan.clone(), document.clone(), template, &groups)?;
            match self.attempt(draft, &mut budget, overtaken.take()).await? {
                Attempt::Done(planned) => return Ok(Some(*planned)),
                Attempt::Exists => return Ok(None),
                Attempt::Overtaken(why) if budget.may_retry() => overtaken = Some(why),
                Attempt::Overtaken(why) => return Err(Failure::Overtaken(why)),
            }
        }
    }

    /// Changes a stored plan; with a name, also renames it.
    ///
    /// # Errors
    /// Every kind of failure.
    pub(crate) async fn change(
        &self,
        plan: PlanRef<'_>,
        change: PlanChange,
        name: Option<&str>,
        terms: Terms,
    ) -> Result<Planned, Failure> {
        let mut budget = Budget::new(self, terms);
        let mut overtaken = None;
        let change = Arc::new(change);
        loop {
            let current = self.read(plan, terms.requester).await?;
            let mut draft = self.draft(current, &change, terms.requester).await?;
            if let Some(name) = name.filter(|name| *name != draft.plan.name) {
                name.clone_into(&mut draft.plan.name);
                draft.renamed = true;
            }
            match self.attempt(draft, &mut budget, overtaken.take()).await? {
                Attempt::Done(planned) => return Ok(*planned),
                Attempt::Overtaken(why) if budget.may_retry() => overtaken = Some(why),
                Attempt::Overtaken(why) => return Err(Failure::Overtaken(why)),
                Attempt::Exists => {}
            }
        }
    }

    /// Applies a change to the plan, before hosts are chosen.
    async fn draft(
        &self,
        current: CurrentPlan,
        change: &Arc<PlanChange>,
        requester: Requester,
    ) -> Result<Draft, Failure> {
        let same = Arc::clone(change);
        let turn = self.read_turn(requester).await?;
        let (current, document, names) = run(turn, move || {
            let document = same.document(&current)?;
            let template = document.as_ref().map(Document::template).transpose()?;
            let names = template.as_ref().map(document::flavors);
            Ok((current, document, names))
        })
        .await?;
        let flavors = match names {
            Some(names) => self.store.flavors_named(&names).await?,
            None => Vec::new(),
        };
        let change = Arc::clone(change);
        let turn = self.read_turn(requester).await?;
        run(turn, move || Ok(change.draft(&current, document, &flavors)?)).await
    }

    /// Chooses hosts and books them. `overtaken` is the reason why the previous attempt failed, if there was one.
    async fn attempt(
        &self,
        mut draft: Draft,
        budget: &mut Budget,
        overtaken: Option<String>,
    ) -> Result<Attempt, Failure> {
        draft.stack.alternatives = budget.terms.alternatives;
        // Taken first, so that the world is the one after the wait, and nothing is held in memory meanwhile.
        let turn = if draft.needs_turn() {
            Some(budget.turn(self, draft.open_servers()).await?)
        } else {
            None
        };
        let groups = draft.stored_groups();
        let own = draft.decided_placements();
        let metadata = draft.stack.demands_aggregates();
        let around = self.surroundings(&own, &groups, metadata).await?;
        let world = self.store.world().await?;
        // The turn ends when the plan is booked, so that the next plan sees the capacity that is left.
        let (draft, solution, _turn) = match self.solve(&world, draft, around.clone(), turn).await {
            // The world is newer than the surroundings: servers may have joined or left groups in between.
            Err(Failure::NoPlaces(why))
                if self.surroundings(&own, &groups, metadata).await? != around =>
            {
                return Ok(Attempt::Overtaken(why.sentence));
            }
            // Earlier attempts, which other requests overtook, used up the time.
            Err(Failure::OutOfTime) => match overtaken {
                Some(why) => return Ok(Attempt::Overtaken(why)),
                None => return Err(Failure::OutOfTime),
            },
            solved => solved?,
        };
        let hosts = draft.hosts(solution.as_ref(), &world, self.host_names);
        if budget.terms.dry_run {
            let draws = draw::draws(&draft, solution.as_ref(), &HashMap::new(), &world);
            return Ok(Attempt::Done(Box::new(Planned { draft, hosts, draws, solution })));
        }
        let turn = self.read_turn(budget.terms.requester).await?;
        let written = run(turn, move || {
            let written = booking::write_draft(&draft, solution.as_ref(), &world).map(|booking| {
                let new = match &booking {
                    Some(booking) => booking.placement_ids(),
                    None => HashMap::new(),
                };
                let draws = draw::draws(&draft, solution.as_ref(), &new, &world);
                (Planned { draft, hosts, draws, solution }, booking)
            });
            Ok(written)
        });
        let (planned, booking) = match written.await? {
            Ok(written) => written,
            Err(BookingError::Stale(why)) => return Ok(Attempt::Overtaken(why)),
            Err(BookingError::Bug(bug)) => return Err(bug.into()),
        };
        match self.book(booking).await {
            Ok(()) => Ok(Attempt::Done(Box::new(planned))),
            Err(store::Error::Refused(Refusal::PlanExists(_), _)) => Ok(Attempt::Exists),
            Err(store::Error::Refused(why, _))
                if booking::may_succeed_again(&why, planned.solution.is_some()) =>
            {
                Ok(Attempt::Overtaken(why.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn book(&self, plan: Option<BookingPlan>) -> store::Result<()> {
        let Some(plan) = plan else { return Ok(()) };
        self.changes.commit(Booking { plan, caps: Some(self.caps) }).await
    }

    /// The placements of stored groups other than these, and the metadata of aggregates.
    pub(super) async fn surroundings(
        &self,
        own: &[uuid::Uuid],
        groups: &[uuid::Uuid],
        with_aggregates: bool,
    ) -> Result<Surroundings, Failure> {
        let around = self.store.surroundings(own, groups).await?;
        let aggregates = if with_aggregates {
            self.store.aggregate_metadata().await?
        } else {
            around.aggregates
        };
        let (racks_by_names, volume_policy) = (self.host_names, self.volume_policy);
        Ok(Surroundings { aggregates, racks_by_names, volume_policy, ..around })
    }

    /// Chooses hosts in a turn, on a separate thread, and returns the turn. Without a turn no server needs a host.
    pub(super) async fn solve(
        &self,
        world: &Arc<World>,
        mut draft: Draft,
        around: Surroundings,
        turn: Option<SolverTurn>,
    ) -> Result<(Draft, Option<PlacedStack>, Option<SolverTurn>), Failure> {
        let Some(turn) = turn else { return Ok((draft, None, None)) };
        let (world, headroom) = (Arc::clone(world), self.headroom.clone());
        let _guard = turn.guard();
        let work = spans::spawn_blocking(move || {
            let servers = spans::count(draft.open_servers() as u64);
            let _solving = span!("solve", berth.plan.servers = servers).entered();
            let world = headroom.left_free(&world);
            let solution = draft.solve(&world, &around, &turn);
            if let Ok(Some(solution)) = &solution {
                turn.log(solution);
            }
            solution.map(|solution| (draft, solution, Some(turn)))
        });
        let solved = work.await;
        let solved = solved.map_err(|panic| Failure::Panicked(Work::Solving, panic.to_string()))?;
        Ok(solved?)
    }
}

/// Counts the outcome of creating or changing a plan.
pub(crate) fn record(outcome: &Result<Planned, Failure>) {
    let outcome = outcome.as_ref().map_or_else(variant, |_| "planned".to_owned());
    counter!("berth_plans_total", "outcome" => outcome).increment(1);
}
