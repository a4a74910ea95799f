// Turns a tool off or on again, once the operator has seen who loses or regains it, and which calls of the last 24 hours
// would have been decided otherwise.
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { BlocksJson } from '../../../admin/block-operations.js'
import type { ApiRefusal } from '../../api.js'
import type { PolicyJson } from '../../policy-operations.js'
import type { SwitchedJson, SwitchPreviewJson } from '../../switch-operations.js'
import { apiRefusalOf } from '../kit/api.js'
import { ErrorBanner } from '../kit/error-banner.js'
import { usePage } from '../kit/page.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { nameOf } from './load.js'

export type ListedBlock = BlocksJson['blocks'][number]

/** The subject of a switch: a tool that is on, or the block that has turned it off. */
interface Switched {
  readonly server?: string
  readonly tool?: string
  readonly block: ListedBlock | undefined
}

interface ToolSwitches {
  /** The button of a switch; undefined if the user may not switch. */
  readonly button: ((switched: Switched) => JSX.Element) | undefined
  /** The dialog, which the view renders. */
  readonly dialog: JSX.Element | undefined
}

/** The switches of a view, and the dialog that they open. */
export function useToolSwitches(policy: PolicyJson | undefined, onChanged: () => void): ToolSwitches {
  const { session } = usePage()
  const [opened, open] = useState<Switched | undefined>()
  const end = (isChanged: boolean) => {
    open(undefined)
    if (isChanged) onChanged()
  }
  const button = (switched: Switched) => (
    <button type="button" onClick={() => open(switched)}>
      {switched.block === undefined ? 'Turn off…' : 'Turn on…'}
    </button>
  )
  return {
    button: policy?.edit === true && session?.may.operate === true ? button : undefined,
    dialog: opened && <ToolSwitch switched={opened} onEnd={end} />,
  }
}

interface ToolSwitchProps {
  readonly switched: Switched
  readonly onEnd: (isChanged: boolean) => void
}

const times = [
  ['', 'it is turned on again'],
  ['3600', 'an hour has passed'],
  ['86400', 'a day has passed'],
  ['604800', 'a week has passed'],
  ['2592000', '30 days have passed'],
] as const

function ToolSwitch({ switched, onEnd }: ToolSwitchProps): JSX.Element {
  const { api } = usePage()
  const { server, tool, block } = switched
  const dialog = useRef<HTMLDialogElement>(null)
  const [preview, setPreview] = useState<SwitchPreviewJson | undefined>()
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [given, setGiven] = useState({ reason: '', forSec: '' })
  const [isSending, setSending] = useState(false)
  const [done, setDone] = useState<SwitchedJson | undefined>()
  const isChanged = useRef(false)
  const lift = block?.id
  useEffect(() => {
    dialog.current?.showModal()
    const named = { server, tool, lift }
    const query = Object.entries(named).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    )
    api
      .get<SwitchPreviewJson>(`/api/policy/switch?${new URLSearchParams(query)}`)
      .then(setPreview, (cause) => setError(apiRefusalOf(cause)))
  }, [api, server, tool, lift])
  const send = async () => {
    setSending(true)
    const { reason, forSec } = given
    const until = forSec === '' ? {} : { for_sec: Number(forSec) }
    try {
      const result =
        lift === undefined
          ? await api.send<SwitchedJson>('POST', '/api/policy/switch', {
              ...{ server, tool, reason, ...until, policy_sha256: preview?.policy_sha256 ?? null },
            })
          : await api.send<SwitchedJson>('POST', `/api/blocks/${lift}/lift`, { reason })
      isChanged.current = true
      // Once it is closed, the button that opened it has the focus again.
      if (problemsOf(result).length === 0) dialog.current?.close()
      else setDone(result)
    } catch (cause) {
      setError(apiRefusalOf(cause))
    } finally {
      setSending(false)
    }
  }
  const state = block === undefined ? 'off' : 'on again'
  return (
    <dialog
      ref={dialog}
      class="switch"
      aria-labelledby="switch-title"
      onClose={() => onEnd(isChanged.current)}
    >
      <h2 id="switch-title">
        Turn{' '}
        <span class="mono">
          <Untrusted text={block?.pattern ?? `${server}/${tool}`} cut={120} />
        </span>{' '}
        {state}
      </h2>
      {done !== undefined ? (
        <ul class="banner warn">
          <li>It is {state} here.</li>
          {problemsOf(done).map((problem) => (
            <li key={problem}>
              <Untrusted text={problem} cut={300} />
            </li>
          ))}
        </ul>
      ) : (
        <ErrorBanner error={error}>
          {block !== undefined && <TurnedOff block={block} />}
          {preview === undefined ? (
            error === undefined && <p class="none">Judging the calls of the last 24 hours again …</p>
          ) : (
            <>
              <Access access={preview.access} isOff={block === undefined} />
              <Replayed replay={preview.replay} />
            </>
          )}
          {block === undefined && (
            <label>
              Off until
              <select onChange={(event) => setGiven({ ...given, forSec: event.currentTarget.value })}>
                {times.map(([value, text]) => (
                  <option key={value} value={value} selected={value === given.forSec}>
                    {text}
                  </option>
                ))}
              </select>
            </label>
          )}
          <label>
            Reason, for the record
            <input
              value={given.reason}
              maxLength={500}
              onInput={(event) => setGiven({ ...given, reason: event.currentTarget.value })}
            />
          </label>
        </ErrorBanner>
      )}
      <p class="actions">
        {done === undefined && (
          <button
            type="button"
            class="primary"
            disabled={preview === undefined || isSending || given.reason.trim() === ''}
            onClick={() => void send()}
          >
            Turn it {state}
          </button>
        )}
        <button type="button" onClick={() => dialog.current?.close()}>
          {done === undefined ? 'Leave it' : 'Close'}
        </button>
      </p>
    </dialog>
  )
}

/** The problems of a change that is in force here, for the operator. */
function problemsOf({ silent, store_error: error, recorded }: SwitchedJson): string[] {
  return [
    ...silent.map(({ gateway }) => `Not applied by ${gateway}, which is silent: end it if it still runs.`),
    ...(error === undefined ? [] : [`Not shared: ${error}. Other gateways apply it when the store is back.`]),
    ...(recorded ? [] : ['Not recorded: the log cannot be written.']),
  ]
}

/** The operator who turned it off, since when, until when, and why. */
export function TurnedOff({ block }: { readonly block: ListedBlock }): JSX.Element {
  const { by, at, until, reason } = block
  return (
    <p class="turned-off">
      Off since <Time at={at} show="day and time" />, by <Untrusted text={by} cut={80} />,{' '}
      {until === null ? 'until it is turned on again' : <>until {<Time at={until} show="day and time" />}</>}:
      “
      <Untrusted text={reason} cut={300} />”
    </p>
  )
}

function Access({
  access,
  isOff,
}: {
  readonly access: SwitchPreviewJson['access']
  readonly isOff: boolean
}): JSX.Element {
  const sign = isOff ? '−' : '+'
  return (
    <section class="effect">
      <h3>What changes</h3>
      {access.length === 0 ? (
        <p>
          {isOff
            ? 'Nobody whom the policy names may call it now.'
            : 'Nobody whom the policy names may call it then: something else refuses them.'}
        </p>
      ) : (
        <ul class={isOff ? 'difference loss' : 'difference gain'}>
          {access.slice(0, 8).map(({ caller }) => (
            <li key={JSON.stringify(caller)}>
              {sign} <Untrusted text={nameOf(caller)} cut={100} />{' '}
              {isOff ? 'may no longer call it' : 'may call it'}
            </li>
          ))}
          {access.length > 8 && (
            <li>
              {sign} and {access.length - 8} more
            </li>
          )}
        </ul>
      )}
    </section>
  )
}

function Replayed({ replay }: Pick<SwitchPreviewJson, 'replay'>): JSX.Element {
  if (replay === null)
    return <p class="note">The gateway keeps no log of its own, so no call was judged again.</p>
  const { from, to, read, judged, same, groups, callers, repeated, decided, not_judged: left } = replay
  return (
    <section class="effect">
      <h3>The calls of the last 24 hours, judged again</h3>
      <p>
        {whole(judged)} of {whole(read)} calls were of it.{' '}
        {judged > 0 && same === judged && 'All would be decided as they were.'}
      </p>
      {groups.length > 0 && (
        <ul class="changes">
          {groups.slice(0, 4).map(({ change, calls, why }) => (
            <li key={`${change} ${why}`}>
              <strong class={change.endsWith('allowed') ? 'good' : 'bad'}>
                {whole(calls)} {change}
              </strong>
            </li>
          ))}
          {same > 0 && <li>{whole(same)} as before</li>}
        </ul>
      )}
      {callers.length > 0 && (
        <p>
          {callers.map(({ caller, calls }) => (
            <span key={caller} class="badge">
              <Untrusted text={caller} cut={60} /> {whole(calls)}
            </span>
          ))}
        </p>
      )}
      <details>
        <summary>What was judged, and what was not</summary>
        <p class="note">
          From <Time at={from} show="day and time" /> to <Time at={to} show="day and time" />, by the policy
          in force now.
          {decided > 0 &&
            ` For ${whole(repeated)} of ${whole(decided)} calls the policy of then decides as it did.`}
        </p>
        <p class="note">
          Not judged: <Untrusted text={left.join('; ')} cut={600} />.
        </p>
      </details>
    </section>
  )
}

function whole(count: number): string {
  return count.toLocaleString('en')
}
