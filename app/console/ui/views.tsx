// The views, in the order of the rail.
import type { JSX } from 'preact'
import type { CallerView } from '../../escalations/escalation-json.js'
import type { StatusJson } from '../status-operation.js'
import { Approvals } from './approvals/approvals.js'
import { CallerPage } from './approvals/caller-page.js'
import { DecidedList } from './approvals/decided-list.js'
import { type ApprovalsData, type DecidedData, loadApprovals } from './approvals/load.js'
import { CallView } from './call/call-view.js'
import { ApprovalsIcon, LiveIcon, LogIcon, OverviewIcon, PolicyIcon, ServersIcon } from './kit/icons.js'
import { type AnyView, defineView, type ViewProps } from './kit/view.js'
import { Live } from './live/live.js'
import { type LiveData, loadLive } from './live/load.js'
import { loadLog } from './log/load.js'
import { Log } from './log/log.js'
import { loadOverview } from './overview/load.js'
import { Overview } from './overview/overview.js'
import { loadPolicyView } from './policy/load.js'
import { PolicyPages } from './policy/policy.js'
import { loadServers } from './servers/load.js'
import { ServerPages } from './servers/servers.js'

/** The view of the log: its days, its heads, its records, and evidence. */
const logView = defineView({
  id: 'log',
  title: 'Log',
  Icon: LogIcon,
  isFor: ({ may }) => may.read,
  load: loadLog,
  View: Log,
})

/** The view of the servers and their callers. */
const serversView = defineView({
  id: 'servers',
  title: 'Servers',
  Icon: ServersIcon,
  isFor: ({ may }) => may.read_all,
  load: loadServers,
  View: ServerPages,
})

/** The view of the policy in force. */
const policyView = defineView({
  id: 'policy',
  title: 'Policy',
  Icon: PolicyIcon,
  isFor: ({ may }) => may.read_all,
  load: loadPolicyView,
  View: PolicyPages,
})

/** The view of the last 24 hours. */
const overviewView = defineView({
  id: 'overview',
  title: 'Overview',
  Icon: OverviewIcon,
  isFor: ({ may, votes, approval_sets: sets }) =>
    may.read_all || may.read_outlines || (votes === 'person' && sets.length === 0),
  load: loadOverview,
  View: Overview,
})

function LiveView({ data, location }: ViewProps<LiveData>): JSX.Element {
  const { list = { calls: [] }, shown, id = '' } = data
  return shown === undefined ? (
    <Live initial={list} query={location.query} />
  ) : (
    <CallView shown={shown} id={id} />
  )
}

/** The view of calls as they happen, and below it that of one call. */
const liveView = defineView({
  id: 'live',
  title: 'Live',
  Icon: LiveIcon,
  isFor: ({ may }) => may.read_calls,
  load: loadLive,
  View: LiveView,
})

/** The view of the escalations that wait for a decision. */
const approvalsView = defineView({
  id: 'approvals',
  title: 'Approvals',
  Icon: ApprovalsIcon,
  isFor: () => true,
  count: waitingIn,
  load: loadApprovals,
  View({ data, location }: ViewProps<ApprovalsData | DecidedData | CallerView>) {
    if ('decided' in data) return <DecidedList initial={data} query={location.query} />
    return 'escalation_id' in data ? <CallerPage initial={data} /> : <Approvals initial={data} />
  },
})

/** Empty for none. */
export function waitingIn({ pending, pending_more: more }: StatusJson): string {
  return pending === 0 ? '' : `${pending}${more ? '+' : ''}`
}

export const views: readonly AnyView[] = [
  approvalsView,
  liveView,
  serversView,
  policyView,
  logView,
  overviewView,
]

export function viewAt(path: string): AnyView | undefined {
  const [, id] = path.split('/')
  return views.find((view) => view.id === id)
}
