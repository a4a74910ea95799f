// The policy in force, on pages: its rules, who may use what, one call tried, the shadow policy, the text.
import type { JSX } from 'preact'
import type { ShadowJson } from '../../../gateway/operations.js'
import { DecisionBadge } from '../kit/decision.js'
import { ErrorBanner, useLoaded } from '../kit/error-banner.js'
import { usePage } from '../kit/page.js'
import { type Column, Table } from '../kit/table.js'
import { Untrusted } from '../kit/untrusted.js'
import type { ViewProps } from '../kit/view.js'
import { Access } from './access.js'
import { loadPolicyView, type PolicyData, type PolicyPage, policyPageOf, policyPages } from './load.js'
import { Rules } from './rules.js'
import { type ListedBlock, TurnedOff, useToolSwitches } from './tool-switch.js'
import { TryCall } from './try-call.js'

const titles: Readonly<Record<PolicyPage, string>> = {
  'in-words': 'Rules',
  access: 'Who may use what',
  try: 'Try a call',
  shadow: 'Shadow',
  text: 'Text',
}

export function PolicyPages({ data: initial, location }: ViewProps<PolicyData>): JSX.Element {
  const { api, now } = usePage()
  const { data, error, at, reload } = useLoaded(initial, now, () => loadPolicyView(api, location))
  const page = policyPageOf(location)
  return (
    <section class="policy">
      <h1 class="title">Policy</h1>
      <nav class="tabs" aria-label="Pages of the policy">
        {policyPages.map((one) => (
          <a key={one} href={`/console/policy/${one}`} aria-current={one === page ? 'page' : undefined}>
            {titles[one]}
          </a>
        ))}
      </nav>
      <ErrorBanner error={error} since={at} onRetry={() => void reload()}>
        {page === 'in-words' && (
          <>
            <Overrides data={data} onChanged={() => void reload()} />
            <Rules data={data} />
          </>
        )}
        {page === 'access' && <Access data={data} location={location} onChanged={() => void reload()} />}
        {page === 'try' && <TryCall policy={data.policy} />}
        {page === 'shadow' && <Shadow shadow={data.shadow} />}
        {page === 'text' && <Text text={data.policy.text} />}
        {page === undefined && <p class="empty">There is no such page.</p>}
      </ErrorBanner>
    </section>
  )
}

type Difference = NonNullable<ShadowJson['differences']>[number]

function Shadow({ shadow }: Pick<PolicyData, 'shadow'>): JSX.Element {
  if (shadow === undefined) {
    return (
      <div class="empty">
        <h2>No shadow policy</h2>
        <p>
          Name a candidate with <code>{'shadow: { policy: next.yaml }'}</code>. It judges the same calls and
          changes nothing; what it would decide otherwise is listed here.
        </p>
      </div>
    )
  }
  const { policy, error, judged = 0, of = 0, failed = 0, unknown = 0, differences = [] } = shadow
  return (
    <div class="panel">
      <p class="lead">
        <span class="mono" title={policy}>
          <Untrusted text={policy.split('/').at(-1) ?? policy} cut={120} />
        </span>{' '}
        judged {judged.toLocaleString('en')} of {of.toLocaleString('en')} calls
        {failed > 0 && <>, {failed.toLocaleString('en')} of them with an error</>}
        {unknown > 0 && <>; what it decides is unknown for {unknown.toLocaleString('en')}</>}.
      </p>
      {error !== undefined && (
        <p class="banner bad">
          <Untrusted text={error} cut={500} />
        </p>
      )}
      {differences.length === 0 ? (
        <p class="none">
          {judged === 0
            ? 'No call was judged yet.'
            : 'It would decide all of them as the policy in force does.'}
        </p>
      ) : (
        <Table
          caption="What it would decide otherwise"
          columns={columns}
          rows={differences}
          keyOf={({ tool, reason, shadow: candidate }) => `${tool} ${reason} ${candidate}`}
        />
      )}
    </div>
  )
}

const columns: readonly Column<Difference>[] = [
  { name: 'Tool', class: 'mono', cell: ({ tool }) => <Untrusted text={tool} cut={100} /> },
  { name: 'In force', cell: ({ in_force: inForce }) => <DecisionBadge decision={inForce} /> },
  { name: 'Shadow', cell: ({ shadow }) => <DecisionBadge decision={shadow} /> },
  { name: 'Why', class: 'mono', cell: ({ reason }) => <Untrusted text={reason} cut={100} /> },
  { name: 'Calls', class: 'number', cell: ({ calls }) => calls.toLocaleString('en') },
]

function Text({ text }: { readonly text: string | null }): JSX.Element {
  if (text === null) return <p class="empty">The policy was given in code, so there is no text of it.</p>
  return (
    <div class="panel source">
      <Untrusted text={text} cut={20_000} isBlock />
    </div>
  )
}

interface OverridesProps {
  readonly data: PolicyData
  readonly onChanged: () => void
}

/** The tools that operators have turned off beside the policy; each can be turned on again. */
function Overrides({ data: { policy, blocks }, onChanged }: OverridesProps): JSX.Element | null {
  const { button, dialog } = useToolSwitches(policy, onChanged)
  if (blocks.length === 0) return null
  return (
    <section class="panel overrides">
      <h2>Turned off over the policy</h2>
      <ul>
        {blocks.map((block) => (
          <li key={block.id}>
            <div>
              <span class="badge bad">{block.kind === 'principal' ? 'blocked' : 'off'}</span>{' '}
              {kinds[block.kind]}
              <strong class="mono">
                <Untrusted text={block.pattern} cut={120} />
              </strong>
              <TurnedOff block={block} />
            </div>
            {block.kind !== 'principal' && button?.({ ...toolOf(block), block })}
          </li>
        ))}
      </ul>
      {dialog}
    </section>
  )
}

const kinds: Readonly<Record<ListedBlock['kind'], string>> = {
  tool: 'tool ',
  server: 'server ',
  principal: 'caller ',
}

/** The tool, if the block is on one alone. */
function toolOf({ kind, pattern }: ListedBlock): { readonly server?: string; readonly tool?: string } {
  const at = pattern.indexOf('/')
  if (kind !== 'tool' || pattern.includes('*') || at < 0) return {}
  return { server: decodeURIComponent(pattern.slice(0, at)), tool: decodeURIComponent(pattern.slice(at + 1)) }
}
