// Tries a call through the policy: what each stage says, and the decision. Nothing is sent.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import type { ApiRefusal } from '../../api.js'
import type { ExplanationJson, PolicyJson } from '../../policy-operations.js'
import { apiRefusalOf } from '../kit/api.js'
import { DecisionBadge } from '../kit/decision.js'
import { ErrorBanner } from '../kit/error-banner.js'
import { usePage } from '../kit/page.js'
import { Untrusted } from '../kit/untrusted.js'

export function TryCall({ policy }: { readonly policy: PolicyJson }): JSX.Element {
  const { api } = usePage()
  const [result, setResult] = useState<ExplanationJson | undefined>()
  const [error, setError] = useState<ApiRefusal | undefined>()
  const tools = policy.servers.flatMap(({ server, tools: names, called_only: calledOnly }) =>
    names.filter((name) => !calledOnly.includes(name)).map((name) => `${server}/${name}`),
  )
  const submit = async (form: HTMLFormElement) => {
    const field = (name: string) => String(new FormData(form).get(name) ?? '').trim()
    const [server = '', ...rest] = field('tool').split('/')
    try {
      const roles = field('roles')
        .split(',')
        .map((role) => role.trim())
        .filter((role) => role !== '')
      setResult(
        await api.send<ExplanationJson>('POST', '/api/policy/explain', {
          tenant: field('tenant'),
          user: field('user'),
          roles,
          server,
          tool: rest.join('/'),
          arguments: JSON.parse(field('arguments') || '{}'),
        }),
      )
      setError(undefined)
    } catch (cause) {
      setResult(undefined)
      setError(cause instanceof SyntaxError ? notJson : apiRefusalOf(cause))
    }
  }
  return (
    <div class="columns">
      <form
        class="panel try"
        onSubmit={(event) => {
          event.preventDefault()
          void submit(event.currentTarget)
        }}
      >
        <label>
          Tool
          <input
            name="tool"
            required
            list="tools"
            placeholder="server/tool"
            autocomplete="off"
            defaultValue={tools[0] ?? ''}
          />
        </label>
        <datalist id="tools">
          {tools.map((tool) => (
            <option key={tool} value={tool} />
          ))}
        </datalist>
        <div class="row">
          <label>
            Tenant
            <input name="tenant" required defaultValue={policy.callers[0]?.tenant ?? ''} />
          </label>
          <label>
            User
            <input name="user" autocomplete="off" />
          </label>
          <label>
            Roles, with commas
            <input name="roles" autocomplete="off" />
          </label>
        </div>
        <label>
          Arguments, as JSON
          <textarea name="arguments" rows={6} class="mono" defaultValue="{}" />
        </label>
        <button type="submit" class="primary">
          Try it
        </button>
        <p class="note">Nothing is sent, counted or approved.</p>
      </form>
      <section class="panel" aria-live="polite">
        <h2>What the policy decides</h2>
        <ErrorBanner error={error}>
          {result === undefined ? (
            error === undefined && <p class="none">Fill in a call and try it.</p>
          ) : (
            <>
              <p class="lead">
                <DecisionBadge decision={result.decision} />{' '}
                {result.reason !== undefined && (
                  <span class="mono">
                    <Untrusted text={result.reason} cut={120} />
                  </span>
                )}
              </p>
              {result.rule !== undefined && (
                <p>
                  By <code>{result.stage}</code>: <Untrusted text={result.rule} cut={400} />
                </p>
              )}
              {result.because?.map((why) => (
                <p key={why} class="note">
                  <Untrusted text={why} cut={300} />
                </p>
              ))}
              <ol class="said">
                {result.lines.map((line, index) => (
                  <li key={`${index} ${line}`} class="mono">
                    <Untrusted text={line} cut={400} />
                  </li>
                ))}
              </ol>
            </>
          )}
        </ErrorBanner>
      </section>
    </div>
  )
}

const notJson: ApiRefusal = { status: 400, error: 'BAD_REQUEST', message: 'The arguments are not JSON.' }
