// Names of the notifications that something has changed, and of what a client subscribes to them with.

/** The notification of each list, its member of the filter of `subscriptions/listen`, and the capability of its servers. */
export const listChanges = [
  { flag: 'toolsListChanged', method: 'notifications/tools/list_changed', capability: 'tools' },
  { flag: 'promptsListChanged', method: 'notifications/prompts/list_changed', capability: 'prompts' },
  { flag: 'resourcesListChanged', method: 'notifications/resources/list_changed', capability: 'resources' },
] as const

export const RESOURCE_UPDATED = 'notifications/resources/updated'

/** The first message on the stream of `subscriptions/listen`. */
export const SUBSCRIPTIONS_ACKNOWLEDGED = 'notifications/subscriptions/acknowledged'
