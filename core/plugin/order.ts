// Proves an order of stages from what they require and provide. Nothing reorders silently.

import { redactor } from '../call/slots.js'
import type { Plugin } from './plugin.js'

export interface OrderMistake {
  /** The entry of the order that is wrong. */
  readonly name: string
  readonly message: string
}

/**
 * The default order, cut down to the plugins that run. One that it does not name stands before the
 * stage it asks for in `before`, else before those that judge what was found.
 */
export function placeInOrder(order: readonly string[], plugins: readonly Plugin[]): string[] {
  const placed = order.filter((name) => plugins.some((plugin) => plugin.name === name))
  const judge = placed.includes('runtime') ? 'runtime' : 'enforcement'
  for (const plugin of plugins) {
    if (placed.includes(plugin.name)) continue
    const at = placed.indexOf(plugin.before ?? judge)
    placed.splice(at === -1 ? placed.length : at, 0, plugin.name)
  }
  return placed
}

/** Every mistake of an order: unknown, repeated and missing stages, slots read before they are filled. */
export function checkOrder(order: readonly string[], plugins: readonly Plugin[]): OrderMistake[] {
  const byName = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  return [
    ...checkNames(order, byName),
    ...checkAuditIsOutermost(order, byName),
    ...checkRedactorIsNext(order, byName),
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

function checkAuditIsOutermost(
  order: readonly string[],
  byName: ReadonlyMap<string, Plugin>,
): OrderMistake[] {
  const first = order[0]
  if (first === undefined || first === 'audit' || !byName.has('audit')) return []
  return [
    {
      name: first,
      message: `stage "${first}" stands outside "audit"; put "audit" first, so that whatever happens is recorded`,
    },
  ]
}

/** A call that is refused outside the redactor would be recorded in full. */
function checkRedactorIsNext(order: readonly string[], byName: ReadonlyMap<string, Plugin>): OrderMistake[] {
  const name = order.find((one) => byName.get(one)?.provides?.some(({ index }) => index === redactor.index))
  const before = order[order.indexOf('audit') + 1]
  if (name === undefined || before === undefined || before === name || before === 'audit') return []
  if (order.indexOf(before) > order.indexOf(name)) return []
  return [
    {
      name: before,
      message: `stage "${before}" stands outside "${name}"; put "${name}" directly after "audit", so that no record tells who called`,
    },
  ]
}

function checkSlots(order: readonly string[], byName: ReadonlyMap<string, Plugin>): OrderMistake[] {
  const mistakes: OrderMistake[] = []
  const filler = new Map<number, string>()
  for (const name of order) {
    for (const slot of byName.get(name)?.provides ?? []) {
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
    for (const slot of plugin?.requires ?? []) {
      const from = filler.get(slot.index)
      if (from === undefined) {
        mistakes.push({
          name,
          message: `stage "${name}" reads the slot "${slot.name}", which no stage fills`,
        })
      } else if (order.indexOf(from) >= at) mistakes.push(tooEarly(slot.name, from))
    }
    for (const slot of plugin?.uses ?? []) {
      const from = filler.get(slot.index)
      if (from !== undefined && order.indexOf(from) > at) mistakes.push(tooEarly(slot.name, from))
    }
  }
  return mistakes
}
