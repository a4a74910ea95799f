// The methods of MCP, revisions 2024-11-05 to 2026-07-28, by who sends them.

const notifications = 'notifications/'

/** Requests and notifications of clients. */
export const ofClients: ReadonlySet<string> = new Set([
  ...[
    'initialize',
    'server/discover',
    'ping',
    'logging/setLevel',
    'completion/complete',
    'subscriptions/listen',
  ],
  ...['tools/list', 'tools/call', 'prompts/list', 'prompts/get'],
  ...[
    'resources/list',
    'resources/templates/list',
    'resources/read',
    'resources/subscribe',
    'resources/unsubscribe',
  ],
  ...['tasks/get', 'tasks/result', 'tasks/list', 'tasks/update', 'tasks/cancel'],
  ...['initialized', 'cancelled', 'progress', 'roots/list_changed', 'tasks/status'].map(named),
])

/** Requests and notifications of servers. */
export const ofServers: ReadonlySet<string> = new Set([
  ...['ping', 'sampling/createMessage', 'elicitation/create', 'roots/list'],
  ...['tasks/get', 'tasks/result', 'tasks/list', 'tasks/cancel'],
  ...['cancelled', 'progress', 'message', 'tasks/status', 'tasks', 'elicitation/complete'].map(named),
  ...['tools/list_changed', 'prompts/list_changed', 'resources/list_changed', 'resources/updated'].map(named),
  named('subscriptions/acknowledged'),
])

function named(name: string): string {
  return notifications + name
}
