// Turns a tool off or on, once the operator has seen who loses it and which calls of the last 24 hours it would have stopped.
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { BlocksJson } from '../../../blocks/operations.js'
import type { ActivityJson } from '../../activity-operation.js'
import type { ApiRefusal } from '../../api.js'
import type { AccessJson } from '../../policy-operations.js'
import { apiRefusalOf } from '../kit/api.js'
import { ErrorBanner } from '../kit/error-banner.js'
import { usePage } from '../kit/page.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'
import { nameOf } from './access.js'

interface ToolSwitchProps {
  readonly server: string
  readonly tool: string
  /** The block that turned it off. */
  readonly block: BlocksJson['blocks'][number] | undefined
  readonly onEnd: (isChanged: boolean) => void
}

/** The longest time of a block. */
const FOR_SEC = 30 * 86_400

interface Effect {
  readonly access: AccessJson
  readonly activity: ActivityJson
}

export function ToolSwitch({ server, tool, block, onEnd }: ToolSwitchProps): JSX.Element {
  const { api } = usePage()
  const dialog = useRef<HTMLDialogElement>(null)
  const [effect, setEffect] = useState<Effect | undefined>()
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [reason, setReason] = useState('')
  useEffect(() => {
    dialog.current?.showModal()
    const query = new URLSearchParams({ server, tool })
    Promise.all([
      api.get<AccessJson>(`/api/policy/access?${query}`),
      api.get<ActivityJson>('/api/activity'),
    ]).then(
      ([access, activity]) => setEffect({ access, activity }),
      (cause) => setError(apiRefusalOf(cause)),
    )
  }, [api, server, tool])
  const send = async () => {
    try {
      if (block === undefined) {
        const given = { kind: 'tool', pattern: `${server}/${tool}`, for_sec: FOR_SEC, reason }
        await api.send('POST', '/api/blocks', given)
      } else await api.send('POST', `/api/blocks/${block.id}/lift`)
      onEnd(true)
    } catch (cause) {
      setError(apiRefusalOf(cause))
    }
  }
  return (
    <dialog ref={dialog} class="switch" aria-labelledby="switch-title" onClose={() => onEnd(false)}>
      <h2 id="switch-title">
        Turn{' '}
        <span class="mono">
          <Untrusted text={`${server}/${tool}`} cut={120} />
        </span>{' '}
        {block === undefined ? 'off' : 'on'}
      </h2>
      <ErrorBanner error={error}>
        {effect === undefined ? (
          <p class="none">Looking at who is affected …</p>
        ) : (
          <Affected {...effect} server={server} tool={tool} />
        )}
        {block === undefined ? (
          <label>
            Reason, for the record
            <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
          </label>
        ) : (
          <p>
            Turned off by <Untrusted text={block.by} cut={80} /> at <Time at={block.at} show="day and time" />
            : “
            <Untrusted text={block.reason} cut={300} />”
          </p>
        )}
        <p class="note">
          It is kept as a block over the policy for at most 30 days, is on record, and can be taken back here.
        </p>
      </ErrorBanner>
      <p class="actions">
        <button
          type="button"
          class="primary"
          disabled={effect === undefined || (block === undefined && reason.trim() === '')}
          onClick={() => void send()}
        >
          {block === undefined ? 'Turn it off' : 'Turn it on'}
        </button>
        <button type="button" onClick={() => dialog.current?.close()}>
          Leave it
        </button>
      </p>
    </dialog>
  )
}

function Affected({
  access,
  activity,
  server,
  tool,
}: Effect & { readonly server: string; readonly tool: string }): JSX.Element {
  const may = access.tools.filter(({ refused }) => refused === null)
  const routes = activity.routes.filter(
    (one) => one.server === server && one.tool === tool && one.allowed > 0,
  )
  const calls = routes.reduce((sum, { allowed }) => sum + allowed, 0)
  return (
    <div class="affected">
      <p>
        {may.length === 0
          ? 'Nobody may call it now.'
          : `Those who may call it: ${may.map((one) => nameOf(one.caller)).join(', ')}.`}
      </p>
      <p>
        {calls === 0
          ? 'Nobody called it in the last 24 hours.'
          : `In the last 24 hours ${calls.toLocaleString('en')} calls of it passed: `}
        {routes.slice(0, 5).map(({ tenant, caller, allowed }) => (
          <span key={`${tenant} ${caller}`} class="badge">
            <Untrusted text={caller === '' ? `nameless, of ${tenant}` : caller} cut={60} />{' '}
            {allowed.toLocaleString('en')}
          </span>
        ))}
      </p>
    </div>
  )
}
