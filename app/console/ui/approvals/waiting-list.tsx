// The list of what waits: tool, caller, rule, time left; the oldest first.
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { useNow } from '../kit/page.js'
import { countdown } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'

interface WaitingListProps {
  readonly waiting: readonly EscalationJson[]
  /** Whether there are others. */
  readonly more: boolean
  readonly selected: string | undefined
  readonly onSelect: (id: string, isChosen: boolean) => void
}

export function WaitingList({ waiting, more, selected, onSelect }: WaitingListProps): JSX.Element {
  const list = useRef<HTMLUListElement>(null)
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })
  }, [selected])
  return (
    <>
      <ul class="waiting" ref={list}>
        {waiting.map((one) => (
          <Row key={one.id} escalation={one} isSelected={one.id === selected} onSelect={onSelect} />
        ))}
      </ul>
      {more && <p class="hint">These are the newest 200; more wait.</p>}
    </>
  )
}

interface RowProps {
  readonly escalation: EscalationJson
  readonly isSelected: boolean
  readonly onSelect: WaitingListProps['onSelect']
}

function Row({ escalation, isSelected, onSelect }: RowProps): JSX.Element {
  const { id, tool, server, principal, reason, expires_at: expiresAt } = escalation
  return (
    <li>
      <a
        href={`/console/approvals/${encodeURIComponent(id)}`}
        aria-current={isSelected ? 'true' : undefined}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return
          event.preventDefault()
          onSelect(id, true)
        }}
      >
        <span class="tool mono">
          <Untrusted text={tool} cut={40} />
        </span>
        <Left until={expiresAt} />
        <span class="from">
          <Untrusted text={principal} cut={40} /> · <Untrusted text={server} cut={24} />
        </span>
        <span class="why">
          <Untrusted text={ruleOf(reason)} cut={32} />
        </span>
      </a>
    </li>
  )
}

/** Without the word that all rules have. */
export function ruleOf(reason: string): string {
  return reason.startsWith('rule:') ? reason.slice('rule:'.length) : reason
}

const SOON_MS = 120_000

/** What is left until a time; the last two minutes stand out, by a word for those who see no colours. */
export function Left({ until }: { readonly until: string }): JSX.Element {
  const left = Date.parse(until) - useNow()
  if (left <= 0) return <span class="left bad">time is over</span>
  return left < SOON_MS ? (
    <span class="left soon">only {countdown(left)} left</span>
  ) : (
    <span class="left">{countdown(left)} left</span>
  )
}
