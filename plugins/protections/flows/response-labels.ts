// The labels that the response of one call gives its caller, before each part of it leaves.
import type { Call, CallRequest, Clock, Finding, Meter } from '@svc/core'
import type { ResponseRewriter } from '@svc/core/response'
import { ReadingBudget } from '../shared/reading-budget.js'
import { TextScanner } from '../text/scan.js'
import { OVERLAP } from '../text/text-stream.js'
import { TextSearch } from '../text/texts.js'
import type { Labels } from './labels.js'
import type { DetectedLabel } from './rules.js'

type Detected = 'secret' | 'personal_data' | 'attack'

let scanners: readonly [TextScanner, TextScanner] | undefined

/** Secrets, personal data and attacks on the model in a value; one that is too long to be searched has all of them. */
async function detectorsIn(value: unknown): Promise<ReadonlySet<Detected>> {
  scanners ??= [new TextScanner('argument'), new TextScanner('result')]
  const budget = new ReadingBudget()
  const [data, attacks] = scanners.map((scanner) => new TextSearch(scanner, budget))
  const found = new Set<Detected>()
  for (const search of [data, attacks]) {
    if (search === undefined) continue
    await search.value(value)
    if (search.isIncomplete) return new Set(['secret', 'personal_data', 'attack'])
  }
  for (const { finding } of data?.found ?? []) {
    if (finding.rule.class === 'secret') found.add('secret')
    if (finding.rule.class === 'personal') found.add('personal_data')
  }
  if (attacks?.found.some(({ finding }) => finding.certain) === true) found.add('attack')
  return found
}

export interface ResponseLabelOptions {
  readonly call: Call
  readonly request: CallRequest
  readonly labels: Labels
  /** The keys of the caller and of the server in the store. */
  readonly holder: string
  readonly server: string
  /** Labels of the response whatever it is. */
  readonly always: readonly string[]
  /** Labels by what is found in it. */
  readonly detected: readonly DetectedLabel[]
  readonly clock: Clock
  readonly meter: Meter | undefined
}

export class ResponseLabels {
  #options: ResponseLabelOptions
  #reported = new Set<string>()

  constructor(options: ResponseLabelOptions) {
    this.#options = options
  }

  /** Gives the labels, those of the server as it has them now, and `found`. Whether there are any. */
  async give(found: readonly string[] = []): Promise<boolean> {
    const { labels, holder, server, always, request, call, clock, meter } = this.#options
    const names = new Set([...always, ...found])
    const passed = await labels.of(server)
    if (names.size === 0 && passed.size === 0) return false
    await labels.pass(holder, new Map([...passed].filter(([name]) => !names.has(name))))
    await labels.give(holder, names, {
      at: new Date(clock.now()).toISOString(),
      reference: request.reference.slice(0, 256),
      traceId: call.trace.traceId,
    })
    const all = new Set([...names, ...passed.keys()])
    meter?.count('svc_flow_labels_total', all.size)
    const unreported = [...all].filter((name) => !this.#reported.has(name))
    for (const name of unreported) this.#reported.add(name)
    if (unreported.length > 0) call.addFinding(labelFinding(unreported))
    return true
  }

  /** Changes nothing; each part of a response waits until its labels stand. */
  observer(): ResponseRewriter {
    const { detected } = this.#options
    const see = async <T>(value: T): Promise<T> => {
      const found = detected.length === 0 ? undefined : await detectorsIn(value)
      await this.give(detected.flatMap(([name, label]) => (found?.has(name) === true ? [label] : [])))
      return value
    }
    return {
      result: see,
      error: see,
      message: see,
      json: see,
      text: see,
      unreadable: undefined,
      // A response that was not read may have all of them.
      unread: async () => {
        await this.give(detected.map(([, label]) => label))
        return undefined
      },
      spansEvents: false,
      ...(detected.length === 0 ? {} : { context: OVERLAP }),
    }
  }
}

function labelFinding(names: readonly string[]): Finding {
  return {
    reason: 'flow_label',
    stage: 'protections',
    level: 'gateway',
    detail: names.join(', '),
    isLate: true,
    ruling: 'report',
  }
}
