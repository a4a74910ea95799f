// Registers a passkey of a reviewer, and shows whether others have confirmed it.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { EscalationJson } from '../../../escalations/escalation-json.js'
import type { ApiRefusal } from '../../api.js'
import { apiRefusalOf } from '../kit/api.js'
import { usePage } from '../kit/page.js'
import { registerPasskey } from '../kit/passkey.js'
import { Time } from '../kit/time.js'
import { Untrusted } from '../kit/untrusted.js'

/** `of` is an escalation that the reviewer votes on: the passkey is for its reviewers. */
export function RegisterPasskey({ of }: { readonly of: EscalationJson }): JSX.Element {
  const { api } = usePage()
  const [registered, setRegistered] = useState<EscalationJson | undefined>()
  const { error, isBusy, run } = useAction(async () => {
    setRegistered(await registerPasskey(api, of.approval_set_id))
  })
  if (registered?.enrolment !== undefined) {
    return (
      <p class="hint" role="status">
        Registered. It <a href={`/console/approvals/${encodeURIComponent(registered.id)}`}>waits</a> for
        another reviewer, to whom you read its code: <code>{registered.enrolment.code}</code>
      </p>
    )
  }
  return (
    <>
      <button type="button" class="quiet" disabled={isBusy} onClick={run}>
        Register a passkey
      </button>
      <Refused error={error} />
    </>
  )
}

interface EnrolmentProps {
  readonly escalation: EscalationJson
  readonly enrolment: NonNullable<EscalationJson['enrolment']>
  readonly onChange: () => Promise<void>
}

export function EnrolmentPanel({ escalation, enrolment, onChange }: EnrolmentProps): JSX.Element {
  const { api, session } = usePage()
  const { id, status } = escalation
  const { reviewer, code, revoked_at: revokedAt } = enrolment
  const { error, isBusy, run } = useAction(async () => {
    await api.send('POST', `/api/passkeys/${encodeURIComponent(id)}/revoke`)
    await onChange()
  })
  const isOwn = session !== undefined && reviewer === `${session.name} of ${session.tenant}`
  const mayRevoke =
    revokedAt === undefined && status !== 'rejected' && (isOwn || session?.may.operate === true)
  return (
    <section>
      <h3>
        A passkey of <Untrusted text={reviewer} cut={60} />{' '}
        <span class={revokedAt === undefined && status === 'approved' ? 'badge good' : 'badge'}>
          {revokedAt === undefined ? states[status] : 'revoked'}
        </span>
      </h3>
      <p>
        Its code: <code>{code}</code>
        {revokedAt !== undefined && (
          <>
            , revoked <Time at={revokedAt} show="ago" />
          </>
        )}
      </p>
      {mayRevoke && (
        <button type="button" class="reject" disabled={isBusy} onClick={run}>
          Revoke the passkey
        </button>
      )}
      <Refused error={error} />
    </section>
  )
}

const states = {
  pending: 'waits for another reviewer',
  approved: 'counts',
  rejected: 'does not count',
} as const

function Refused({ error }: { readonly error: ApiRefusal | undefined }): JSX.Element | null {
  return error === undefined ? null : (
    <p class="bad" role="alert">
      {error.message}
    </p>
  )
}

/** Runs one action at a time, and keeps the reason why the last one failed. */
function useAction(act: () => Promise<void>) {
  const [error, setError] = useState<ApiRefusal | undefined>()
  const [isBusy, setBusy] = useState(false)
  const run = async () => {
    setBusy(true)
    try {
      await act()
      setError(undefined)
    } catch (cause) {
      setError(apiRefusalOf(cause))
    }
    setBusy(false)
  }
  return { error, isBusy, run: () => void run() }
}
