// A complete custom stage: during a change freeze, calls of the tools that it names are findings.
// The policy loads it with `plugins: [{ use: ./dist/change-freeze.js, version: ^1 }]`.
import {
  type Call,
  type Clock,
  definePlugin,
  type Finding,
  type Next,
  type Outcome,
  resolve,
  type Stage,
  tokens,
} from 'svc-sdk/core'
import { messageOf } from 'svc-sdk/core/json'
import { compilePatternSet, type PatternSet } from 'svc-sdk/core/match'
import { z } from 'zod'

// An invalid pattern is reported with its line in the policy.
const pattern = z.string().superRefine((text, context) => {
  try {
    compilePatternSet([text])
  } catch (error) {
    context.addIssue(messageOf(error))
  }
})

// 1. The section of the policy. A strict object, so that a misspelt key is reported.
const schema = z
  .strictObject({
    /** When the freeze begins and ends, ISO 8601 with a zone. The end is exclusive. */
    from: z.iso.datetime({ offset: true }),
    until: z.iso.datetime({ offset: true }),
    /** Patterns over `mcp://<server>/<tool>@<version>`, as in a denylist. */
    tools: z.array(pattern).min(1),
  })
  .refine(({ from, until }) => Date.parse(from) < Date.parse(until), {
    path: ['until'],
    error: 'the freeze ends before it begins',
  })

type ChangeFreezeConfig = z.infer<typeof schema>

// 2. The stage. It only adds findings; `enforcement` decides what they mean, so `mode: observe` and `deny_on` apply to
// it
//    as to the built-in stages.
class ChangeFreeze implements Stage {
  #from: number
  #until: number
  #tools: PatternSet
  #finding: Finding
  #clock: Clock

  constructor(config: ChangeFreezeConfig, clock: Clock) {
    this.#from = Date.parse(config.from)
    this.#until = Date.parse(config.until)
    this.#tools = compilePatternSet(config.tools)
    this.#finding = {
      reason: 'change_freeze',
      stage: 'change_freeze',
      level: 'gateway',
      detail: `no changes before ${config.until}`,
    }
    this.#clock = clock
  }

  async handle(call: Call, next: Next): Promise<Outcome> {
    if (!this.#isOn()) return next()
    // The same rule filters lists of tools, so a client does not see a tool that it cannot use.
    call.addReferenceRule((reference) => this.#judge([reference]))
    const { kind, readings } = await call.request()
    const finding = kind === 'tool' ? this.#judge(readings) : undefined
    if (finding !== undefined) call.addFinding(finding)
    return next()
  }

  #judge(readings: readonly string[]): Finding | undefined {
    return this.#tools.findReading(readings) === undefined ? undefined : this.#finding
  }

  #isOn(): boolean {
    const now = this.#clock.now()
    return now >= this.#from && now < this.#until
  }
}

// 3. The plugin: the name of its section, its version, and the version of the contract that it supports.
export default definePlugin({
  name: 'change_freeze',
  version: '1.0.0',
  core: '^1.0.0',
  schema,
  reasons: ['change_freeze'],
  create: (config, { container }) => new ChangeFreeze(config, resolve(container, tokens.Clock)),
})
