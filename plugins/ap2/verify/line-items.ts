// Whether the items of a checkout are exactly those that an open mandate requires: a maximum flow from the requirements
// to the items that they accept.
export interface ItemRequirement {
  readonly accepted: ReadonlySet<string>
  readonly quantity: number
}

/** `items` maps item ids to quantities. */
export function meetsRequirements(
  items: ReadonlyMap<string, number>,
  requirements: readonly ItemRequirement[],
): boolean {
  const wanted = requirements.reduce((sum, { quantity }) => sum + quantity, 0)
  const given = [...items.values()].reduce((sum, quantity) => sum + quantity, 0)
  return wanted === given && maximumFlow(items, requirements) === wanted
}

/** Edmonds and Karp's algorithm; `assigned[r].get(item)` is the flow from a requirement to an item. */
function maximumFlow(items: ReadonlyMap<string, number>, requirements: readonly ItemRequirement[]): number {
  const assigned = requirements.map(() => new Map<string, number>())
  const free = new Map(items)
  let flow = 0
  for (const [start, { quantity }] of requirements.entries()) {
    for (let left = quantity; left > 0; ) {
      const moved = augment(start, left, { requirements, assigned, free })
      if (moved === 0) break
      left -= moved
      flow += moved
    }
  }
  return flow
}

interface Flow {
  readonly requirements: readonly ItemRequirement[]
  readonly assigned: readonly Map<string, number>[]
  readonly free: Map<string, number>
}

interface Step {
  readonly requirement: number
  /** The item that the path takes from another requirement. */
  readonly item?: string
  readonly before?: Step
}

/** Moves up to `limit` units along a shortest path; 0 if there is none. */
function augment(start: number, limit: number, { requirements, assigned, free }: Flow): number {
  const queue: Step[] = [{ requirement: start }]
  const seen = new Set([start])
  for (const step of queue) {
    for (const item of requirements[step.requirement]?.accepted ?? []) {
      const rest = free.get(item) ?? 0
      if (rest > 0) return move(step, item, Math.min(limit, rest), { requirements, assigned, free })
      for (const [other, taken] of assigned.entries()) {
        if (seen.has(other) || (taken.get(item) ?? 0) === 0) continue
        seen.add(other)
        queue.push({ requirement: other, item, before: step })
      }
    }
  }
  return 0
}

function move(end: Step, free: string, limit: number, flow: Flow): number {
  let moved = limit
  for (let step = end; step.before !== undefined && step.item !== undefined; step = step.before) {
    moved = Math.min(moved, flow.assigned[step.requirement]?.get(step.item) ?? 0)
  }
  flow.free.set(free, (flow.free.get(free) ?? 0) - moved)
  let item = free
  for (let step: Step | undefined = end; step !== undefined; step = step.before) {
    const taken = flow.assigned[step.requirement]
    taken?.set(item, (taken.get(item) ?? 0) + moved)
    if (step.item === undefined) break
    taken?.set(step.item, (taken.get(step.item) ?? 0) - moved)
    item = step.item
  }
  return moved
}
