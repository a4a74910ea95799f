// The views, in the order of the rail.
import { approvalsView } from './approvals/view.js'
import type { AnyView } from './kit/view.js'
import { liveView } from './live/view.js'
import { logView } from './log/view.js'
import { overviewView } from './overview/view.js'
import { policyView } from './policy/view.js'
import { serversView } from './servers/view.js'

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
