// The outcome of a call, as a word and a colour.
import type { JSX } from 'preact'
import type { CallRow } from '../../calls/call-row.js'

type Decided = Pick<CallRow, 'decision' | 'status' | 'would_deny'> & { readonly error?: string | undefined }

interface CallDecision {
  readonly word: 'waits' | 'denied' | 'would deny' | 'allowed' | 'failed'
  readonly tone: 'warn' | 'bad' | 'good'
}

export function callDecision({ decision, status, error, would_deny: wouldDeny }: Decided): CallDecision {
  if (error === 'ESCALATION_PENDING') return { word: 'waits', tone: 'warn' }
  if (decision === 'deny') return { word: 'denied', tone: 'bad' }
  if (wouldDeny === true && status === 'ok') return { word: 'would deny', tone: 'warn' }
  return status === 'ok' ? { word: 'allowed', tone: 'good' } : { word: 'failed', tone: 'warn' }
}

export function CallDecisionBadge({ call }: { readonly call: Decided }): JSX.Element {
  const { word, tone } = callDecision(call)
  return <span class={`badge ${tone}`}>{word}</span>
}

const tones: Readonly<Record<string, string>> = { allow: 'good', escalate: 'warn', deny: 'bad' }

export function DecisionBadge({ decision }: { readonly decision: string }): JSX.Element {
  return <span class={`badge ${tones[decision] ?? ''}`}>{decision}</span>
}
