// The stages of a policy as tools run them: each handles the call as in a gateway, with its stores in memory. What a stage
// cannot know about the call, or would have to ask others, is a possible finding.
import {
  after,
  attempt,
  bind,
  bindForPipeline,
  type Call,
  externalDecision,
  type Finding,
  identity,
  isUnrecorded,
  type MaybePromise,
  type Next,
  notes,
  type Outcome,
  type Plugin,
  Resources,
  type SectionEntry,
  type Stage,
  services,
  slot,
  tokens,
  trustedCaller,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import type { PlacedStage } from '@svc/core/pipeline'
import type { DependencyContainer } from 'tsyringe'
import { BlockList } from '../../blocks/block.js'
import { type BlockSource, blockSource } from '../../blocks/stage.js'
import type { Policy } from '../../policy/config.js'
import { pluginContext } from '../../policy/plugin-context.js'
import { bindBetweenPlugins } from '../../policy/plugins.js'
import type { VirtualClock } from './clock.js'

/** The phases of stages after the verdict. */
export const laterPhases: ReadonlySet<string> = new Set(['idempotency', 'metering', 'credential'])

/** A stage as a whole may decide anything. */
export const WHOLE_STAGE = '*'

/** What a stage said of its judgement. */
export interface StageNote {
  readonly stage: string
  readonly text: string
  readonly entry: SectionEntry | undefined
}

/** The decisions that a test states in place of stages that ask others. */
export type Answers = Readonly<Record<string, 'allow' | 'deny' | 'escalate' | 'clarify'>>

interface Listener {
  /** The stage that runs now. */
  stage: string
  readonly answers: Answers
}

const listener = slot<Listener>('judge/listener')

/** Collects the notes about the call. */
export function collectNotes(call: Call, add: (note: StageNote) => void, answers: Answers = {}): void {
  const own: Listener = { stage: '', answers }
  call.set(listener, own)
  call.set(notes, (text, entry) => add({ stage: own.stage, text, entry }))
}

export interface StagePlace {
  readonly baseDir: string
  readonly env?: Readonly<Record<string, string | undefined>> | undefined
  warn?(message: string): void
}

export interface StageOptions {
  readonly clock: VirtualClock
  readonly place: StagePlace
  /** Whether stages run that do not say what they reach. */
  readonly runsUnstated: boolean
  /** The blocks of a gateway; absent for a judgement without them. */
  readonly blocks?: BlockSource | undefined
}

export interface JudgingStages {
  /** In the order of the policy, without those that record and redact. */
  readonly placed: readonly (PlacedStage & Pick<Plugin, 'phase'>)[]
  readonly container: DependencyContainer
  /** The stages up to the verdict that are not run. */
  readonly unasked: readonly string[]
  /** Whether one of them could allow what findings deny. */
  readonly mayPass: boolean
}

/** The stages are not started. Throws what a plugin's `create` throws. */
export function judgingStages(policy: Policy, options: StageOptions): JudgingStages {
  const { clock, place, blocks = { current: () => new BlockList([]) } } = options
  const container = policy.container.createChildContainer()
  const silent = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  bind(container, services.inMemory, { useValue: true })
  bind(container, tokens.Clock, { useValue: clock })
  bind(container, tokens.Ids, { useValue: new CountedIds() })
  bind(container, tokens.Logger, { useValue: silent })
  bind(container, tokens.Meter, { useValue: { count: quiet } })
  bind(container, tokens.Notices, { useValue: { send: quiet } })
  bind(container, blockSource, { useValue: blocks })
  bind(container, services.record, { useValue: async () => undefined })
  const resources = new Resources()
  const { baseDir, env = {}, warn = quiet } = place
  const context = pluginContext(policy, { container, resources, baseDir, env, warn })
  bindBetweenPlugins(container)
  const configOf = ({ name }: Plugin) => policy.sections.get(name)
  for (const plugin of policy.plugins) bindForPipeline(plugin, configOf(plugin), context)
  const unasked: string[] = []
  let mayPass = false
  const placed = policy.plugins.flatMap((plugin) => {
    const { name, phase = 'inspection' } = plugin
    if (phase === 'record' || phase === 'redaction') return []
    const config = configOf(plugin)
    const stage = plugin.create(config, context)
    const isRun = stage.effects === undefined ? options.runsUnstated : stage.effects !== 'network'
    if (!isRun && !laterPhases.has(phase)) unasked.push(name)
    mayPass ||= !isRun && phase === 'evaluation'
    const created = isRun ? withGivenCaller(plugin, stage) : standIn(plugin)
    return [{ name, phase, stage: judging(name, created, sha256Hex(JSON.stringify(config) ?? '')) }]
  })
  return { placed, container, unasked, mayPass }
}

/** A stage of another author that identifies callers is passed over where the caller is given. */
function withGivenCaller(plugin: Plugin, stage: Stage): Stage {
  if (stage.effects !== undefined || plugin.provides?.includes(identity) !== true) return stage
  const handle: Stage['handle'] = (call, next) => {
    const given = call.get(trustedCaller)
    if (given === undefined) return stage.handle(call, next)
    call.note('is passed over: the caller is taken as given')
    call.set(identity, given.identity)
    return next()
  }
  return {
    start: (signal) => stage.start?.(signal) ?? Promise.resolve(),
    stop: () => stage.stop?.() ?? Promise.resolve(),
    handle,
  }
}

/** The stage, which is passed if it reads what is not known: then it may decide anything. */
function judging(name: string, stage: Stage, basis: string): Stage {
  return {
    start: (signal) => stage.start?.(signal) ?? Promise.resolve(),
    stop: () => stage.stop?.() ?? Promise.resolve(),
    handle(call, next) {
      const heard = call.get(listener)
      if (heard !== undefined) heard.stage = name
      let passed: MaybePromise<Outcome> | undefined
      const pass: Next = () => {
        passed ??= heard === undefined ? next() : after(next(), (outcome) => back(heard, name, outcome))
        return passed
      }
      return attempt(
        () => stage.handle(call, pass),
        (error) => {
          if (!isUnrecorded(error)) throw error
          call.addFinding(anyDecision(name, error.facts, basis))
          return pass()
        },
      )
    },
  }
}

function back(heard: Listener, name: string, outcome: Outcome): Outcome {
  heard.stage = name
  return outcome
}

/** Stands for a stage that would ask others. Behind the verdict it decides on no policy. */
function standIn({ name, phase = 'inspection', provides = [] }: Plugin): Stage {
  return {
    handle(call, next) {
      const answer = call.get(listener)?.answers[name]
      if (answer !== undefined) {
        call.note(`is taken to decide: ${answer}`)
        call.set(externalDecision, { action: answer, considered: call.findings.map(({ reason }) => reason) })
      } else {
        call.note('is not asked here')
        const given = provides.includes(identity) ? call.get(trustedCaller) : undefined
        if (given !== undefined) call.set(identity, given.identity)
        const any = anyDecision(name, [`what stage ${name} decides`], '')
        // The verdict covers what an evaluation says; any other stage may refuse the call by itself.
        const possible = phase === 'evaluation' ? any.possible : { ...any.possible, isRefusal: true as const }
        if (!laterPhases.has(phase)) call.addFinding({ ...any, possible })
      }
      return next()
    },
  }
}

function anyDecision(stage: string, missing: readonly string[], basis: string): PossibleDecision {
  return { reason: WHOLE_STAGE, stage, ruling: 'deny', possible: { missing, basis } }
}

type PossibleDecision = Finding & Required<Pick<Finding, 'possible'>>

class CountedIds {
  #count = 0

  traceId(): string {
    return (++this.#count).toString(16).padStart(32, '0')
  }

  spanId(): string {
    return (++this.#count).toString(16).padStart(16, '0')
  }
}

const quiet = () => undefined
