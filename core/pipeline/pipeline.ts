// Runs calls through composed stages, and starts and stops the stages in order.
import type { CallControl, Watcher } from '../call/call-control.js'
import { releaseHolds, watchCall } from '../call/control-operations.js'
import type { Refusal } from '../call/errors.js'
import { isPending, type MaybePromise } from '../call/maybe-promise.js'
import { failed, type Outcome } from '../call/outcome.js'
import { messageOf } from '../json/message.js'
import { bindForPipeline, type PluginContext } from '../plugin/plugin.js'
import type { StageHealth } from '../plugin/stage.js'
import type { EffectivePolicy } from '../policy/types.js'
import { compose, type Dispatch, outcomeOf, type PlacedStage, type Run } from './compose.js'
import { type CallObserver, joinedObservers, observedDispatch, observedStage } from './observe.js'
import { settled } from './settle.js'

export class Pipeline {
  readonly stages: readonly PlacedStage[]
  #run: Run
  #observer: CallObserver | undefined
  #started: PlacedStage[] = []

  constructor(stages: readonly PlacedStage[], dispatch: Dispatch, observer?: CallObserver) {
    this.stages = stages
    this.#observer = observer
    this.#run =
      observer === undefined
        ? compose(stages, dispatch)
        : compose(
            stages.map((placed) => observedStage(placed, observer)),
            observedDispatch(dispatch, observer),
          )
  }

  /**
   * Starts the stages from the innermost outward, so that a stage may rely on those inside it. If one fails, all started
   * stages are stopped in reverse, and all errors are thrown together.
   */
  async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    for (const placed of [...this.stages].reverse()) {
      this.#started.push(placed)
      try {
        signal.throwIfAborted()
        await placed.stage.start?.(signal)
      } catch (cause) {
        const error = new Error(`stage ${placed.name} did not start: ${messageOf(cause)}`, { cause })
        throw joined([error, ...(await this.#stopStarted())])
      }
    }
  }

  /** Stops every stage, in reverse order of the start; errors are thrown together. */
  async stop(): Promise<void> {
    const errors = await this.#stopStarted()
    if (errors.length > 0) throw joined(errors)
  }

  async #stopStarted(): Promise<Error[]> {
    const errors: Error[] = []
    for (const { name, stage } of this.#started.splice(0).reverse()) {
      try {
        await stage.stop?.()
      } catch (cause) {
        errors.push(new Error(`stage ${name} did not stop: ${messageOf(cause)}`, { cause }))
      }
    }
    return errors
  }

  /** The problems of stages that are `down`, or those of which operators are warned, one line each. */
  problems(state: StageHealth['state']): string[] {
    return this.stages.flatMap(({ name, stage }) => {
      const health = stage.health?.()
      return health?.state === state ? [`${name}: ${health.reason}`] : []
    })
  }

  /**
   * Never rejects. A complete response has settled when this resolves; a streamed one settles while it is sent. If a
   * stage or the dispatcher goes on after an abort, the call ends without it.
   */
  run(call: CallControl): Promise<Outcome> {
    this.#observer?.began(call)
    const running = this.#run(call)
    if (!(running instanceof Promise || isPending(running))) return Promise.resolve(ended(call, running))
    return new Promise((resolve, reject) => new Ending(call, running, resolve, reject))
  }
}

/**
 * Creates every stage of the policy, in order, once the tokens of every plugin are bound. Nothing is opened before `start()`.
 * Throws the errors of plugins.
 */
export function buildPipeline(
  policy: EffectivePolicy<unknown>,
  context: PluginContext,
  dispatch: Dispatch,
  observers: readonly CallObserver[] = [],
): Pipeline {
  for (const plugin of policy.plugins) bindForPipeline(plugin, policy.sections.get(plugin.name), context)
  const stages = policy.plugins.map(
    (plugin): PlacedStage => ({
      name: plugin.name,
      stage: plugin.create(policy.sections.get(plugin.name), context),
    }),
  )
  return new Pipeline(stages, dispatch, joinedObservers(observers))
}

/** Settles the call, and returns the outcome for its caller. */
function ended(call: CallControl, returned: Outcome): MaybePromise<Outcome> {
  const outcome = call.underFindings(returned)
  return call.hasUnspentHolds
    ? released(call, outcome).then((rest) => settled(call, rest))
    : settled(call, outcome)
}

/** Milliseconds that stages and the dispatcher have to end a call once it is aborted. */
const ABORTED_MS = 3_000

/** Milliseconds in which a call whose caller has left must reach the dispatcher, or end after the dispatcher. */
const LEFT_MS = 5_000

/**
 * Ends a call once: with the outcome of its stages, or with that of an abort if they have not ended some time after it.
 * A call whose caller has left is aborted if stages keep it; a wait with a limit of its own may take longer.
 */
class Ending implements Watcher {
  #call: CallControl
  #resolve: (outcome: MaybePromise<Outcome>) => void
  #reject: (error: unknown) => void
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor(
    call: CallControl,
    running: Promise<Outcome>,
    resolve: (outcome: MaybePromise<Outcome>) => void,
    reject: (error: unknown) => void,
  ) {
    this.#call = call
    this.#resolve = resolve
    this.#reject = reject
    call[watchCall](this)
    running.then(this.#end)
  }

  aborted(reason: Refusal): void {
    clearTimeout(this.#timer)
    const end = () => this.#end(outcomeOf(this.#call, 'that was aborted', reason))
    this.#timer = setTimeout(end, ABORTED_MS)
  }

  left(): void {
    let looks = 0
    this.#timer ??= setInterval(() => {
      looks = this.#call.isWaiting ? 0 : looks + 1
      if (looks < 2) return
      this.#call.abort('CANCELLED', 'The caller disconnected, and a stage did not go on.')
    }, LEFT_MS / 2)
  }

  readonly #end = (outcome: Outcome): void => {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    this.#call[watchCall](undefined)
    try {
      this.#resolve(ended(this.#call, outcome))
    } catch (error) {
      this.#reject(error)
    }
  }
}

/** The outcome once the holds are released, or the failure that replaces it. */
async function released(call: CallControl, outcome: Outcome): Promise<Outcome> {
  try {
    await call[releaseHolds]()
    return outcome
  } catch (cause) {
    return failed('STORE_UNAVAILABLE', 'The resources held for this call could not be released.', { cause })
  }
}

function joined(errors: readonly Error[]): Error {
  const [only] = errors
  if (only !== undefined && errors.length === 1) return only
  return new AggregateError(errors, errors.map(messageOf).join('; '))
}
