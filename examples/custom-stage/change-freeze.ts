// A stage of your own, whole: while a change freeze is on, the tools it names are not to be used.
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

// A pattern that cannot match is told with the line of the policy it stands on.
const pattern = z.string().superRefine((text, context) => {
  try {
    compilePatternSet([text])
  } catch (fault) {
    context.addIssue(messageOf(fault))
  }
})

// 1. The section of the policy. Strict, so that a slip of the pen is told and not ignored.
const schema = z
  .strictObject({
    /** When the freeze begins and ends, ISO 8601 with a zone; the end is the first instant without it. */
    from: z.iso.datetime({ offset: true }),
    until: z.iso.datetime({ offset: true }),
    /** Patterns over `mcp://<server>/<tool>@<version>`, as in an allowlist. */
    tools: z.array(pattern).min(1),
  })
  .refine(({ from, until }) => Date.parse(from) < Date.parse(until), {
    path: ['until'],
    error: 'the freeze ends before it begins',
  })

type ChangeFreezeConfig = z.infer<typeof schema>

// 2. The stage. It accuses, it does not judge: what becomes of a finding is `enforcement`'s to say, so
//    `mode: observe` and `deny_on` work for it as they do for the built-in stages.
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
      detail: `nothing is changed before ${config.until}`,
    }
    this.#clock = clock
  }

  async handle(call: Call, next: Next): Promise<Outcome> {
    if (!this.#isOn()) return next()
    // Lists of tools are filtered by the same rule, so a client is not offered what it cannot use.
    call.addReferenceRule((reference) => this.#judge(reference))
    const { kind, reference } = await call.request()
    const finding = kind === 'tool' ? this.#judge(reference) : undefined
    if (finding !== undefined) call.addFinding(finding)
    return next()
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say(this.#isOn() ? 'the freeze is on' : 'no freeze now')
    return this.handle(call, next)
  }

  #judge(reference: string): Finding | undefined {
    return this.#tools.matches(reference) ? this.#finding : undefined
  }

  #isOn(): boolean {
    const now = this.#clock.now()
    return now >= this.#from && now < this.#until
  }
}

// 3. The plugin: the name of its section, its own version, the contract it was written for.
export default definePlugin({
  name: 'change_freeze',
  version: '1.0.0',
  core: '^1.0.0',
  schema,
  reasons: ['change_freeze'],
  create: (config, { container }) => new ChangeFreeze(config, resolve(container, tokens.Clock)),
})
