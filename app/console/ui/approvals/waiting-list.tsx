// The list of what waits: tool, input, caller, rule, time left; the oldest first.
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { useNow } from '../kit/page.js'
import { useRowKeys } from '../kit/table.js'
import { countdown } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import type { WaitingRow } from './load.js'
import { Names, Values } from './names.js'

interface WaitingListProps {
  readonly waiting: readonly WaitingRow[]
  /** Whether there are others. */
  readonly more: boolean
  readonly selected: string | undefined
  /** `isOpened`: its page is wanted, not its row alone. */
  readonly onSelect: (id: string, isOpened: boolean) => void
}

export function WaitingList({ waiting, more, selected, onSelect }: WaitingListProps): JSX.Element {
  const list = useRowKeys<HTMLUListElement>()
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })
  }, [selected])
  return (
    <>
      <ul class="waiting" ref={list}>
        {waiting.map((one) => (
          <Row key={one.id} waiting={one} isSelected={one.id === selected} onSelect={onSelect} />
        ))}
      </ul>
      {more && <p class="hint">These are the {waiting.length} oldest; more wait.</p>}
    </>
  )
}

interface RowProps {
  readonly waiting: WaitingRow
  readonly isSelected: boolean
  readonly onSelect: WaitingListProps['onSelect']
}

function Row({ waiting, isSelected, onSelect }: RowProps): JSX.Element {
  const { id, tool, principal, agent, reason, values, expires_at: expiresAt, isReview } = waiting
  return (
    <li>
      <a
        class="row"
        href={`/console/approvals/${encodeURIComponent(id)}`}
        aria-current={isSelected ? 'true' : undefined}
        onFocus={() => onSelect(id, false)}
        onClick={(event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return
          event.preventDefault()
          onSelect(id, true)
        }}
      >
        <span class="tool mono">
          <Untrusted text={tool} cut={60} isCell />
        </span>
        {isReview ? <span class="badge bad">to review</span> : <Left until={expiresAt} />}
        <span class="from">
          <Names agent={agent} caller={principal} isCell />
        </span>
        <span>
          <Values values={values} />
        </span>
        <span class="why">
          <Untrusted text={ruleOf(reason)} cut={60} isCell />
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

interface LeftProps {
  readonly until: string
  /** What becomes of it then. */
  readonly then?: string
}

/** What is left until a time; the last two minutes stand out, by a word for those who see no colours. */
export function Left({ until, then = '' }: LeftProps): JSX.Element {
  const left = Date.parse(until) - useNow()
  if (left <= 0) return <span class="left bad">time is over</span>
  return (
    <span class={left < SOON_MS ? 'left soon' : 'left'}>
      {left < SOON_MS ? 'only ' : ''}
      {countdown(left)} left{then}
    </span>
  )
}

/** What becomes of it if nobody decides. */
export function atTimeout({ timeout_action: action }: Pick<EscalationJson, 'timeout_action'>): string {
  return action === 'auto_approve' ? 'approved' : 'rejected'
}
