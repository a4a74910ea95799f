// The list of waiting calls: tool, input, caller, rule, time left; the oldest first.
import { Component, Fragment, type JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import { stepRow, useKeys } from '../kit/keys.js'
import { useNow } from '../kit/page.js'
import { countdown } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { useOnScreen } from './input.js'
import type { WaitingRow } from './load.js'
import { Names, Values } from './names.js'
import type { Picks } from './picks.js'

interface WaitingListProps {
  readonly waiting: readonly WaitingRow[]
  /** Whether there are others. */
  readonly more: boolean
  readonly selected: string | undefined
  readonly picks: Picks
  /** `isOpened`: its page is wanted, not its row alone. */
  readonly onSelect: (id: string, isOpened: boolean) => void
  /** The end of the list is on the screen, and there are others. */
  readonly onMore: () => void
}

export function WaitingList(props: WaitingListProps): JSX.Element {
  const { waiting, more, selected, picks, onMore } = props
  const list = useRef<HTMLUListElement>(null)
  const [unfolded, setUnfolded] = useState<readonly string[]>([])
  const groups = groupsOf(waiting)
  const latest = useRef(props)
  latest.current = props
  // The same ones at each rendering, so that rows that did not change are not rendered again.
  const { select, pick } = useRef({
    select: (id: string, isOpened: boolean) => latest.current.onSelect(id, isOpened),
    pick(id: string, isRange: boolean) {
      const { picks, waiting } = latest.current
      picks.toggle(id, isRange ? [...groupsOf(waiting).values()].flat().map((one) => one.id) : undefined)
    },
  }).current
  const pickCurrent = (isRange: boolean) => {
    const row = document.activeElement?.closest<HTMLElement>('.waiting li')
    const id = row?.dataset['id'] ?? selected
    if (id !== undefined) pick(id, isRange)
  }
  const reachable = waiting.some(({ id }) => id === selected) ? selected : waiting[0]?.id
  useKeys({ x: () => pickCurrent(false), X: () => pickCurrent(true) })
  useEffect(() => {
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' })
  }, [selected])
  return (
    <>
      <ul class="waiting" ref={list} onKeyDown={stepByArrows}>
        {[...groups].map(([key, group]) => {
          const hidden =
            group.length > 1 && !unfolded.includes(key)
              ? group.slice(1).filter(({ id }) => id !== selected)
              : []
          const shown = group.filter((one) => !hidden.includes(one))
          return (
            <Fragment key={key}>
              {shown.map((one) => (
                <Row
                  key={one.id}
                  waiting={one}
                  isSelected={one.id === selected}
                  isReachable={one.id === reachable}
                  isPicked={picks.picked.includes(one.id)}
                  onSelect={select}
                  onPick={pick}
                />
              ))}
              {hidden.length > 0 && (
                <li class="folded">
                  <button
                    type="button"
                    class="quiet row"
                    tabIndex={-1}
                    onClick={() => {
                      setUnfolded([...unfolded, key])
                      focusRow(hidden[0]?.id)
                    }}
                  >
                    {more && 'at least '}
                    {hidden.length} more of this caller, tool and rule
                  </button>
                  <button
                    type="button"
                    class="quiet"
                    tabIndex={-1}
                    onClick={() => picks.add(group.map(({ id }) => id))}
                  >
                    Pick all
                  </button>
                </li>
              )}
            </Fragment>
          )
        })}
      </ul>
      {more && <More key={waiting.length} count={waiting.length} onMore={onMore} />}
    </>
  )
}

/** Fewer equal calls are not folded. */
const FOLDED_FROM = 3

/** The calls of the same caller, tool and rule, at the place of the first of them; others are groups of one. */
function groupsOf(waiting: readonly WaitingRow[]): Map<string, WaitingRow[]> {
  const equal = byKey(waiting, (one) => {
    const { principal, principal_kind: kind, agent, server, tool, reason, isReview } = one
    return JSON.stringify([principal, kind, agent, server, tool, reason, isReview])
  })
  const foldedIn = new Map(
    [...equal].flatMap(([key, group]) =>
      group.length < FOLDED_FROM ? [] : group.map(({ id }) => [id, key] as const),
    ),
  )
  return byKey(waiting, ({ id }) => foldedIn.get(id) ?? id)
}

function byKey(
  waiting: readonly WaitingRow[],
  keyOf: (one: WaitingRow) => string,
): Map<string, WaitingRow[]> {
  const groups = new Map<string, WaitingRow[]>()
  for (const one of waiting) {
    const group = groups.get(keyOf(one))
    if (group === undefined) groups.set(keyOf(one), [one])
    else group.push(one)
  }
  return groups
}

/** Once what was set is on the screen. */
function focusRow(id = ''): void {
  requestAnimationFrame(() =>
    setTimeout(() =>
      document.querySelector<HTMLElement>(`.waiting li[data-id="${CSS.escape(id)}"] a`)?.focus(),
    ),
  )
}

function stepByArrows(event: KeyboardEvent): void {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  if (by === undefined) return
  event.preventDefault()
  stepRow(by)
}

function More({ count, onMore }: { readonly count: number; readonly onMore: () => void }): JSX.Element {
  const end = useOnScreen<HTMLParagraphElement>(onMore)
  return (
    <p class="hint" ref={end}>
      These are the {count} oldest; more are loaded …
    </p>
  )
}

interface RowProps {
  readonly waiting: WaitingRow
  readonly isSelected: boolean
  /** Whether Tab leads to it: from the selected call it goes on to the vote, and arrows or j and k lead to the others. */
  readonly isReachable: boolean
  readonly isPicked: boolean
  readonly onSelect: WaitingListProps['onSelect']
  readonly onPick: (id: string, isRange: boolean) => void
}

/** Rendered again only if what it shows has changed: there may be a thousand. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    const { waiting, isSelected, isReachable, isPicked } = this.props
    if (isSelected !== next.isSelected || isReachable !== next.isReachable || isPicked !== next.isPicked)
      return true
    return waiting !== next.waiting && JSON.stringify(waiting) !== JSON.stringify(next.waiting)
  }

  override render(): JSX.Element {
    return <WaitingCall {...this.props} />
  }
}

function WaitingCall(props: RowProps): JSX.Element {
  const { waiting, isSelected, isReachable, isPicked, onSelect, onPick } = props
  const tabIndex = isReachable ? 0 : -1
  const { id, tool, principal, reason, values = [], expires_at: expiresAt, isReview, hasHidden } = waiting
  return (
    <li data-id={id}>
      <label class="pick">
        <input
          type="checkbox"
          tabIndex={tabIndex}
          checked={isPicked}
          aria-label={`Pick ${tool} of ${principal}`}
          onClick={(event) => onPick(id, event.shiftKey)}
        />
      </label>
      <a
        class="row"
        tabIndex={tabIndex}
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
        {isReview ? <span class="badge bad">to review</span> : <Left until={expiresAt} isCell />}
        <span class="from">
          <Names escalation={waiting} isCell />
        </span>
        {values.length > 0 && (
          <span class="values">
            <Values values={values} />
          </span>
        )}
        {hasHidden && <span class="warning">hidden characters</span>}
        <span class="why">
          <Untrusted text={ruleOf(reason)} cut={60} isCell />
        </span>
      </a>
    </li>
  )
}

/** The rule's name without the word that all rules have. */
export function ruleOf(reason: string): string {
  return reason.startsWith('rule:') ? reason.slice('rule:'.length) : reason
}

const SOON_MS = 120_000

interface LeftProps {
  readonly until: string
  /** The text after the time, about the decision that follows. */
  readonly then?: string
  /** Whether it is in a row, where seconds are left out. */
  readonly isCell?: boolean
}

/** The time that is left. The last two minutes are marked by a word too, for readers who see no colours. */
export function Left({ until, then = '', isCell = false }: LeftProps): JSX.Element {
  const left = Date.parse(until) - useNow()
  if (left <= 0) return <span class="left bad">time is over</span>
  return (
    <span class={left < SOON_MS ? 'left soon' : 'left'}>
      {left < SOON_MS ? 'only ' : ''}
      {countdown(left, isCell)} left{then}
    </span>
  )
}

/** The decision that is made if nobody decides. */
export function atTimeout({ timeout_action: action }: Pick<EscalationJson, 'timeout_action'>): string {
  return action === 'auto_approve' ? 'approved' : 'rejected'
}
