// The default order of stages, and the check of an order against the slots that stages read and set.

import { type Phase, stagePhases } from './phase.js'
import type { Plugin } from './plugin.js'

export interface OrderMistake {
  /** The entry of the order that is wrong. */
  readonly name: string
  readonly message: string
}

function phaseOf({ phase = 'inspection' }: Plugin): number {
  return stagePhases.indexOf(phase)
}

/** The default order: by phase, then by registration. */
export function defaultOrder(plugins: readonly Plugin[]): string[] {
  const sorted = [...plugins].sort((a, b) => phaseOf(a) - phaseOf(b)).map(({ name }) => name)
  const others = sorted.filter((name) => plugins.find((one) => one.name === name)?.phase !== 'blocking')
  return withBlocking(others, plugins)
}

/**
 * The order with stages of the phase `blocking` that it leaves out: no policy turns them off. They stand directly inside
 * the last stage that sets a slot that they read.
 */
export function withBlocking(order: readonly string[], plugins: readonly Plugin[]): string[] {
  const placed = [...order]
  for (const { name, phase, uses = [] } of plugins.toReversed()) {
    if (phase !== 'blocking' || order.includes(name)) continue
    const outer = placed.findLastIndex(
      (other, at) =>
        placed.indexOf(other) === at &&
        plugins.find((one) => one.name === other)?.provides?.some((slot) => uses.includes(slot)),
    )
    placed.splice(outer < 0 ? outermost(placed, plugins) : outer + 1, 0, name)
  }
  return placed
}

/** The first place inside the stages that record and redact. */
function outermost(order: readonly string[], plugins: readonly Plugin[]): number {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  return order.findLastIndex((name) => /^(?:record|redaction)$/.test(byName.get(name)?.phase ?? '')) + 1
}

/** Every mistake of an order: unknown, repeated and missing stages, slots that are read before they are set. */
export function checkOrder(order: readonly string[], plugins: readonly Plugin[]): OrderMistake[] {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  return [
    ...checkNames(order, byName),
    ...checkRecorderIsOutermost(order, byName),
    ...checkRedactorIsNext(order, byName),
    ...checkFindingsAreJudged(order, byName),
    ...checkSlots(order, byName),
  ]
}

function checkNames(order: readonly string[], byName: ReadonlyMap<string, Plugin>): OrderMistake[] {
  const mistakes: OrderMistake[] = []
  const seen = new Set<string>()
  for (const name of order) {
    if (!byName.has(name)) {
      const known = [...byName.keys()].join(', ')
      mistakes.push({ name, message: `no stage "${name}" is configured; the stages here are ${known}` })
    } else if (seen.has(name)) {
      mistakes.push({ name, message: `stage "${name}" is listed twice; a stage runs once` })
    }
    seen.add(name)
  }
  for (const name of byName.keys()) {
    if (seen.has(name)) continue
    mistakes.push({
      name,
      message: `stage "${name}" is configured but not in the order; list it, or leave its section out`,
    })
  }
  return mistakes
}

function checkRecorderIsOutermost(
  order: readonly string[],
  byName: ReadonlyMap<string, Plugin>,
): OrderMistake[] {
  const [first] = order
  const recorder = inPhase('record', order, byName)
  if (first === undefined || recorder === undefined || first === recorder) return []
  const message = `stage "${first}" is outside "${recorder}"; put "${recorder}" first, so that every call is recorded`
  return [{ name: first, message }]
}

/** A call that is refused outside the redactor would be recorded without redaction. */
function checkRedactorIsNext(order: readonly string[], byName: ReadonlyMap<string, Plugin>): OrderMistake[] {
  const recorder = inPhase('record', order, byName)
  const name = inPhase('redaction', order, byName)
  const outer = order.find((stage) => stage !== recorder)
  if (name === undefined || recorder === undefined || outer === undefined || outer === name) return []
  const message = `stage "${outer}" is outside "${name}"; put "${name}" directly after "${recorder}", so that every record is redacted`
  return [{ name: outer, message }]
}

/** A stage that can report findings must precede the stage that decides about them. */
function checkFindingsAreJudged(
  order: readonly string[],
  byName: ReadonlyMap<string, Plugin>,
): OrderMistake[] {
  const judge = inPhase('decision', order, byName)
  if (judge === undefined) return []
  const decision = stagePhases.indexOf('decision')
  return [...byName].flatMap(([name, plugin]) => {
    if (order.indexOf(name) <= order.indexOf(judge)) return []
    const { reasons = [] } = plugin
    if (reasons.length === 0 && phaseOf(plugin) >= decision) return []
    const rest = reasons.length > 0 ? '' : ', or give its plugin a phase after "decision"'
    const message = `stage "${name}" can report findings, and "${judge}" has decided before it; put "${name}" before "${judge}"${rest}`
    return [{ name, message }]
  })
}

function inPhase(phase: Phase, order: readonly string[], byName: ReadonlyMap<string, Plugin>) {
  return order.find((name) => byName.get(name)?.phase === phase)
}

function checkSlots(order: readonly string[], byName: ReadonlyMap<string, Plugin>): OrderMistake[] {
  const mistakes: OrderMistake[] = []
  const filler = new Map<number, string>()
  for (const name of order) {
    for (const slot of byName.get(name)?.provides ?? []) {
      if (slot.isShared) continue
      const other = filler.get(slot.index)
      if (other === undefined) filler.set(slot.index, name)
      else if (other !== name) {
        mistakes.push({ name, message: `stages "${other}" and "${name}" both fill the slot "${slot.name}"` })
      }
    }
  }
  for (const [at, name] of order.entries()) {
    const plugin = byName.get(name)
    const tooEarly = (slot: string, from: string): OrderMistake => ({
      name,
      message: `stage "${name}" reads the slot "${slot}" before "${from}" fills it; put "${from}" before "${name}"`,
    })
    for (const slot of plugin?.uses ?? []) {
      const from = filler.get(slot.index)
      if (from !== undefined && order.indexOf(from) > at) mistakes.push(tooEarly(slot.name, from))
    }
  }
  return mistakes
}
