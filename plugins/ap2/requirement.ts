// Which calls need a mandate, and what its findings do.
import { type Call, type CallRequest, type Finding, isSideEffecting, sideEffects } from '@svc/core'
import { compilePatternMap, compilePatternSet, type PatternMap, type PatternSet } from '@svc/core/match'
import type { Ap2Config } from './config.js'
import type { MandateReason } from './mandate/fault.js'
import type { Binding } from './verify/binding.js'

export class Requirement {
  readonly mode: Ap2Config['mode']
  #forSideEffects: boolean
  #tools: PatternSet | undefined
  #bindings: PatternMap<Binding>

  constructor({ mode, requireForSideEffects, tools }: Ap2Config) {
    this.mode = mode
    this.#forSideEffects = requireForSideEffects || mode === 'partial'
    this.#tools = tools.allow === undefined ? undefined : compilePatternSet(tools.allow)
    this.#bindings = compilePatternMap(tools.bind)
  }

  /** Whether mandates apply to the call. */
  applies({ kind, reference }: CallRequest): boolean {
    return kind === 'tool' && (this.#tools?.matches(reference) ?? true)
  }

  isRequired(call: Call, request: CallRequest): boolean {
    if (this.mode === 'full') return true
    return this.#forSideEffects && isSideEffecting(request, call.get(sideEffects))
  }

  bindingOf({ reference }: CallRequest): Binding | undefined {
    return this.#bindings.lookup(reference)[0]?.value
  }

  finding(reason: MandateReason, detail: string): Finding {
    const finding = { reason, stage: 'ap2', level: 'gateway', detail }
    if (this.mode === 'observe') return { ...finding, ruling: 'report' }
    return this.mode === 'full' ? { ...finding, ruling: 'deny' } : finding
  }
}
