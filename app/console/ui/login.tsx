// The page for users who are not signed in.
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { PageState } from '../api.js'
import { usePage } from './kit/page.js'
import { createSessionKey } from './kit/session-key.js'

type LoginProps = Pick<PageState, 'login' | 'location' | 'servedFor'>

export function Login({ login, location, servedFor }: LoginProps): JSX.Element {
  return (
    <main class="login">
      <h1>
        <span class="mark">svc</span> console
      </h1>
      {login.oidc && <IssuerButton isBack={location.path === '/callback'} />}
      {(login.token || login.users) && <TokenForm login={login} />}
      {servedFor !== undefined && <Ticket />}
      {!login.token && !login.users && servedFor === undefined && (
        <p>
          Nobody can sign in: the policy in force has neither <code>admin.tokenRef</code> nor{' '}
          <code>authn.oidc</code>.
        </p>
      )}
    </main>
  )
}

/** Signs in from the link of `svc console`, whose ticket is behind the `#`, which browsers do not send. */
function Ticket(): JSX.Element {
  const [error, setError] = useState('')
  useEffect(() => {
    const ticket = location.hash.slice(1)
    if (ticket === '') return
    history.replaceState(null, '', location.pathname)
    void signIn(ticket).then(setError)
  }, [])
  return (
    <>
      <p>
        Open the link that <code>npx svc-sdk console</code> printed; it works once.
      </p>
      <p class="bad" role="alert">
        {error}
      </p>
    </>
  )
}

/** `isBack`: the issuer has redirected here. */
function IssuerButton({ isBack }: { readonly isBack: boolean }): JSX.Element {
  const { isLive } = usePage()
  const [error, setError] = useState('')
  const go = async () => {
    setError(await goToIssuer())
  }
  useEffect(() => {
    if (isBack) void finishSignIn().then(setError)
  }, [])
  return (
    <div class="issuer">
      <p class="hint">As yourself, at the issuer that the policy names:</p>
      <button type="button" class="primary" disabled={!isLive} onClick={() => void go()}>
        Sign in
      </button>
      <p class="bad" role="alert">
        {error}
      </p>
    </div>
  )
}

/** Beside the sign-in at an issuer it is the second choice. */
function TokenForm({ login: { token, users, oidc } }: Pick<LoginProps, 'login'>): JSX.Element {
  const { isLive } = usePage()
  const [error, setError] = useState('')
  const [isBusy, setBusy] = useState(false)
  useEffect(() => {
    if (!oidc) document.querySelector<HTMLInputElement>('#token')?.focus()
  }, [])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget
    const given = form instanceof HTMLFormElement ? new FormData(form).get('token') : null
    setBusy(true)
    setError(await signIn(String(given ?? '').trim()))
    setBusy(false)
  }
  return (
    <form onSubmit={submit} method="post">
      {oidc && <p class="hint">or with a token:</p>}
      <label for="token">{users ? 'Token' : 'Admin token'}</label>
      <input id="token" name="token" type="password" autocomplete="off" required spellcheck={false} />
      <p class="hint">
        {users && `A bearer token of yours${token ? ', or the admin token' : ''}. `}
        {token && (
          <>
            <code>admin.tokenRef</code> of the policy says where the admin token is.{' '}
          </>
        )}
        It is sent once, and not kept in this browser.
      </p>
      <button type="submit" class={oidc ? '' : 'primary'} disabled={!isLive || isBusy}>
        Sign in with the token
      </button>
      <p class="bad" role="alert">
        {error}
      </p>
    </form>
  )
}

/** The sign-in that this tab has begun. */
const STATE = 'svc-sign-in'

/** Resolves to the reason of a failure; else the issuer's page is loaded. */
async function goToIssuer(): Promise<string> {
  try {
    const { pathname, search } = location
    const path = pathname === '/console/callback' ? '/console' : pathname + search
    const { url, message } = await post('/console/login', { path })
    if (url === undefined) return message
    sessionStorage.setItem(STATE, new URL(url).searchParams.get('state') ?? '')
    location.assign(url)
    return ''
  } catch {
    return unreachable
  }
}

/** Resolves to the reason of a failure; else the requested page is loaded. */
async function finishSignIn(): Promise<string> {
  const { search } = location
  // The code must not stay in the history.
  history.replaceState(null, '', location.pathname)
  const state = sessionStorage.getItem(STATE)
  sessionStorage.removeItem(STATE)
  if (state === null || new URLSearchParams(search).get('state') !== state)
    return 'This tab has begun no such sign-in; begin again.'
  try {
    const { path, message } = await post('/console/callback', {
      query: search,
      key: await createSessionKey(),
    })
    if (path === undefined) return message
    location.replace(path)
    return ''
  } catch {
    return unreachable
  }
}

const unreachable = 'The gateway does not respond.'

interface SignInResponse {
  readonly url?: string
  readonly path?: string
  readonly message: string
}

async function post(
  path: string,
  value: object,
  more: Record<string, string> = {},
): Promise<SignInResponse & { readonly isOk: boolean }> {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...more },
    body: JSON.stringify(value),
  })
  const found: Partial<SignInResponse> = await response.json()
  return { message: `HTTP status ${response.status}`, ...found, isOk: response.ok }
}

/** Resolves to the reason of a failure; else the page is loaded again. */
async function signIn(token: string): Promise<string> {
  if (!/^[A-Za-z0-9\-._~+/]+=*$/.test(token)) return 'A token has only letters, digits and - . _ ~ + / ='
  try {
    const key = await createSessionKey()
    const { isOk, message } = await post('/api/session', { key }, { authorization: `Bearer ${token}` })
    if (!isOk) return message
    const kept = await fetch('/api/session')
    if (!kept.ok)
      return 'The browser did not keep the session. Open the console over https, or as http://localhost.'
    location.reload()
    return ''
  } catch {
    return unreachable
  }
}
