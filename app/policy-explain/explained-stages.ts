// The stages of a policy by their explanations, and the `tools/list` by which they are asked what a caller may use.
import { type Call, callRequest, type Identity, identity, type PluginContext } from '@svc/core'
import { type CallControl, compose, type InsertedStage, type PlacedStage, type Run } from '@svc/core/pipeline'
import type { Policy } from '../policy/config.js'
import { unsent, unsentCall } from '../policy/unsent-call.js'

/** `inserted` is a stage of the gateway. Throws what a plugin's `create` throws. */
export function explainedStages(
  { sections }: Pick<Policy, 'sections'>,
  plugins: Policy['plugins'],
  context: PluginContext,
  inserted?: InsertedStage,
): PlacedStage[] {
  return plugins.flatMap((plugin) => {
    const { name, provides = [] } = plugin
    const placed = explained({ name, stage: plugin.create(sections.get(name), context) })
    return inserted !== undefined && provides.includes(inserted.within)
      ? [placed, explained(inserted)]
      : [placed]
  })
}

/** Judges a call that is not sent. */
export function judgeUnsent(stages: readonly PlacedStage[]): Run {
  return compose(stages, () => Promise.resolve(unsent))
}

/** A `tools/list` of the caller, or of one without a token if `who` is undefined. */
export function toolListing(who: Identity | undefined, server: string, version: string): CallControl {
  const request = callRequest({
    kind: 'protocol',
    method: 'tools/list',
    server,
    name: 'POST',
    version,
    args: {},
    idempotencyKey: null,
  })
  const control = unsentCall(request)
  if (who !== undefined) control.call.set(identity, who)
  return control
}

/** Why the decision about an explained call is not known; empty if it is. */
export function undecidedOf(call: Call): readonly string[] {
  return undecided.get(call) ?? []
}

const undecided = new WeakMap<Call, string[]>()

function explained({ name, stage }: PlacedStage): PlacedStage {
  const explain = stage.explain?.bind(stage)
  const note = (call: Call, why: string) =>
    void undecided.set(call, [...undecidedOf(call), `stage ${name} ${why}`])
  const handle: PlacedStage['stage']['handle'] = (call, next) => {
    if (explain !== undefined)
      return explain(
        call,
        next,
        () => undefined,
        (why) => note(call, why),
      )
    note(call, 'explains nothing')
    return next()
  }
  return { name, stage: { handle } }
}
