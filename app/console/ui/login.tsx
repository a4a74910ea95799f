// The page of those who are not signed in.
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { PageState } from '../api.js'
import { useIsLive } from './kit/page.js'
import { createSessionKey } from './kit/session-key.js'

interface LoginProps {
  readonly login: PageState['login']
}

export function Login({ login }: LoginProps): JSX.Element {
  return (
    <main class="login">
      <h1>
        <span class="mark">svc</span> console
      </h1>
      {login.oidc && <IssuerButton />}
      {(login.token || login.users) && <TokenForm hasUsers={login.users} />}
      {!login.token && !login.users && (
        <p>
          Nobody can sign in: the policy in force has neither <code>admin.tokenRef</code> nor{' '}
          <code>authn.oidc</code>.
        </p>
      )}
    </main>
  )
}

function IssuerButton(): JSX.Element {
  const isLive = useIsLive()
  const [error, setError] = useState('')
  const go = async () => {
    setError(await goToIssuer())
  }
  return (
    <div class="issuer">
      <button type="button" class="primary" disabled={!isLive} onClick={() => void go()}>
        Sign in
      </button>
      <p class="bad" role="alert">
        {error}
      </p>
    </div>
  )
}

function TokenForm({ hasUsers }: { readonly hasUsers: boolean }): JSX.Element {
  const isLive = useIsLive()
  const [error, setError] = useState('')
  const [isBusy, setBusy] = useState(false)
  useEffect(() => document.querySelector<HTMLInputElement>('#token')?.focus(), [])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget
    const token = form instanceof HTMLFormElement ? new FormData(form).get('token') : null
    setBusy(true)
    setError(await signIn(String(token ?? '').trim()))
    setBusy(false)
  }
  return (
    <form onSubmit={submit} method="post">
      <label for="token">{hasUsers ? 'Token' : 'Admin token'}</label>
      <input id="token" name="token" type="password" autocomplete="off" required spellcheck={false} />
      <p class="hint">
        <code>admin.tokenRef</code> of the policy says where it is. It is sent once, and not kept in this
        browser.
      </p>
      <button type="submit" class="primary" disabled={!isLive || isBusy}>
        Sign in with the token
      </button>
      <p class="bad" role="alert">
        {error}
      </p>
    </form>
  )
}

/** Resolves to why it did not work; else the issuer's page is loaded. */
async function goToIssuer(): Promise<string> {
  try {
    const { pathname, search } = location
    const response = await fetch('/console/login', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ key: await createSessionKey(), path: pathname + search }),
    })
    const value: { readonly url?: string; readonly message?: string } = await response.json()
    if (value.url === undefined) return value.message ?? `HTTP status ${response.status}`
    location.assign(value.url)
    return ''
  } catch {
    return 'The gateway does not respond.'
  }
}

/** Resolves to why it did not work; else the page is loaded anew. */
async function signIn(token: string): Promise<string> {
  if (!/^[A-Za-z0-9\-._~+/]+=*$/.test(token)) return 'A token has only letters, digits and - . _ ~ + / ='
  try {
    const response = await fetch('/api/session', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ key: await createSessionKey() }),
    })
    const value: { readonly message?: string } = await response.json()
    if (!response.ok) return value.message ?? `HTTP status ${response.status}`
    const kept = await fetch('/api/session')
    if (!kept.ok)
      return 'The browser did not keep the session. Open the console over https, or as http://localhost.'
    location.reload()
    return ''
  } catch {
    return 'The gateway does not respond.'
  }
}
